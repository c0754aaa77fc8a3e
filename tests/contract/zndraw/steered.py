"""`JobManager`s in manual mode that do what they are told: a JSON line in, a JSON line out."""

import json
import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from zndraw_joblib import ClaimedTask, JobManager
from zndraw_joblib.exceptions import ProblemDetail
from zndraw_joblib.schemas import (
    JobResponse,
    JobSummary,
    PaginatedResponse,
    TaskClaimResponse,
    TaskResponse,
    WorkerResponse,
    WorkerSummary,
)

from api import EXTENSIONS, Api, rotate_anew

MODELS: dict[str, type[BaseModel]] = {
    "Job": JobResponse,
    "Jobs": PaginatedResponse[JobSummary],
    "Task": TaskResponse,
    "Tasks": PaginatedResponse[TaskResponse],
    "Claim": TaskClaimResponse,
    "Worker": WorkerResponse,
    "Workers": PaginatedResponse[WorkerSummary],
    "Problem": ProblemDetail,
}


class Steered:
    """A client: each method is an order; what it returns is the answer."""

    def __init__(self, url: str, token: str) -> None:
        self.api = Api(url, token)
        # What is refused is to be told at once, not tried again for half a minute.
        self.manager = JobManager(self.api, max_startup_retries=1)
        self.claimed: dict[str, ClaimedTask[Any]] = {}

    def create_worker(self) -> str:
        return str(self.manager.create_worker())

    def register(self, extension: str, room: str | None = None, *, anew: bool = False) -> dict[str, Any]:
        self.manager.register(rotate_anew() if anew else EXTENSIONS[extension], room=room)
        return {"worker_id": str(self.manager.worker_id), "jobs": sorted(self.manager)}

    def submit(self, extension: str, arguments: dict[str, Any], room: str, job_room: str = "@global") -> str:
        return self.manager.submit(EXTENSIONS[extension](**arguments), room, job_room=job_room)

    def claim(self) -> dict[str, Any] | None:
        if (task := self.manager.claim()) is None:
            return None
        self.claimed[task.task_id] = task
        return {
            "task_id": task.task_id,
            "job_name": task.job_name,
            "room_id": task.room_id,
            "extension": type(task.extension).__name__,
            "arguments": task.extension.model_dump(),
        }

    def start(self, task: str) -> None:
        self.manager.start(self.claimed[task])

    def run(self, task: str) -> str:
        return self.claimed[task].extension.run(None)

    def complete(self, task: str) -> None:
        self.manager.complete(self.claimed[task])

    def fail(self, task: str, error: str) -> None:
        self.manager.fail(self.claimed[task], error)

    def fail_by_id(self, task: str, error: str) -> None:
        self.manager.fail_by_id(task, error)

    def cancel(self, task: str) -> None:
        self.manager.cancel(self.claimed[task])

    def heartbeat(self) -> None:
        self.manager.heartbeat()

    def disconnect(self) -> None:
        self.manager.disconnect()

    def request(self, method: str, path: str, model: str, body: Any = None, prefer: str | None = None) -> Any:
        """Ask one of the package's routes, and read the answer with one of its response models."""
        headers = self.api.get_headers() | ({} if prefer is None else {"Prefer": prefer})
        url = f"{self.api.base_url}/v1/joblib{path}"
        answer = self.api.http.request(method, url, headers=headers, json=body)
        parsed = MODELS[model].model_validate(answer.json())
        return {
            "status": answer.status_code,
            "headers": dict(answer.headers),
            "body": parsed.model_dump(mode="json", by_alias=True),
        }


def obey(order: Callable[..., Any], fields: dict[str, Any]) -> dict[str, Any]:
    """Carry the order out; say what came of it."""
    try:
        return {"ok": order(**fields)}
    except Exception as error:  # noqa: BLE001 - the test decides which error is right
        return {"raised": type(error).__name__, "text": str(error)}


def main() -> None:
    clients: dict[str, Steered] = {}
    for line in sys.stdin:
        fields = json.loads(line)
        name, order = fields.pop("client"), fields.pop("order")
        if order == "connect":
            clients[name] = Steered(**fields)
        else:
            print(json.dumps(obey(getattr(clients[name], order), fields)), flush=True)


if __name__ == "__main__":
    main()

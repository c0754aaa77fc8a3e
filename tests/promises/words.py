"""The words of the promises: what users and their workers do, in the same dicts whichever way they speak.

`User` and `Worker` say what there is; `over_http` and `over_socket` how it is done. What exists only over HTTP goes
there from both. Every word raises `Problem` when the server refuses.
"""

from abc import ABC, abstractmethod
from typing import Any

import httpx

from tests.promises.problems import told

Task = dict[str, Any]
"""A TaskItem or a Claim; whoever is given one needs only its `id`, and its `run_id` where a run is meant."""

JOB = "lab:tasks:add"


def run_of(task: Task, run_id: int | None = None) -> dict[str, Any]:
    """Return the run of a claim, or another run of its task."""
    return {"task_id": task["id"], "run_id": task["run_id"] if run_id is None else run_id}


class Worker(ABC):
    """A worker of a user. It takes tasks only while `claim` asks."""

    def __init__(self, user: "User", worker_id: str) -> None:
        self.user = user
        self.id = worker_id

    @abstractmethod
    async def claim(self, most: int = 1, *, wait: float = 0) -> list[Task]:
        """Claim up to `most` tasks, waiting `wait` seconds for the first.

        Over the socket a worker gets all that it has room for, so there `most` is at least its concurrency.
        """

    @abstractmethod
    async def serve(self, *jobs: str) -> None:
        """Serve jobs that are registered already."""

    @abstractmethod
    async def report(self, kind: str, task: Task, *, run_id: int | None = None, **fields: Any) -> Task:
        """Report of the claim's run, or of `run_id`; return the task afterwards."""

    @abstractmethod
    async def heartbeat(
        self, *runs: Task, every: bool = False, stopped: list[Task] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Beat for the runs named, or for `every` run of the worker; without runs it is a mere sign of life."""

    @abstractmethod
    async def hand_back(self, task: Task) -> Task:
        """Give back a run that was not started."""

    @abstractmethod
    async def leave(self) -> None:
        """Go for good: the worker is removed."""

    async def take(self, *, wait: float = 0) -> Task:
        """Claim one task that must be there."""
        [task] = await self.claim(wait=wait)
        return task

    async def begin(self, *, wait: float = 0) -> Task:
        """Claim one task that must be there, and start it."""
        task = await self.take(wait=wait)
        await self.start(task)
        return task

    async def start(self, task: Task) -> Task:
        return await self.report("started", task)

    async def complete(self, task: Task, result: Any = None, **fields: Any) -> Task:
        return await self.report("completed", task, result=result, **fields)

    async def fail(self, task: Task, error: str = "boom", **fields: Any) -> Task:
        return await self.report("failed", task, error=error, **fields)

    async def exception(self, task: Task, reason: str, **fields: Any) -> Task:
        return await self.report("exception", task, reason=reason, **fields)

    async def pause_report(self, task: Task, **fields: Any) -> Task:
        return await self.report("paused", task, **fields)

    async def stopped(self, task: Task, **fields: Any) -> Task:
        return await self.report("stopped", task, **fields)

    async def checkpoint(self, task: Task, checkpoint: Any, **fields: Any) -> Task:
        return await self.report("checkpoint", task, checkpoint=checkpoint, **fields)

    async def progress(self, task: Task, share: float, message: str | None = None, **fields: Any) -> Task:
        return await self.report("progress", task, share=share, message=message, **fields)

    async def log(self, task: Task, *messages: str, **fields: Any) -> Task:
        return await self.report("logs", task, lines=[{"message": message} for message in messages], **fields)

    async def reclaim(self, task: Task, run_id: int | None = None) -> dict[str, Any]:
        """Extend the run's lease over HTTP; the socket does it with a heartbeat."""
        run = run_of(task, run_id)
        answer = await self.user.http.post(f"/v1/tasks/{run['task_id']}/runs/{run['run_id']}/reclaim")
        return told(answer)  # type: ignore[no-any-return]


class User(ABC):
    """Somebody with a token."""

    def __init__(self, name: str, token: str, http: httpx.AsyncClient) -> None:
        self.name = name
        self.token = token
        self.http = http

    # What exists both ways

    @abstractmethod
    async def register_job(
        self, name: str = "add", *, room: str = "lab", category: str = "tasks", **details: Any
    ) -> dict[str, Any]:
        """Register a job; retained unless `retain` says otherwise."""

    @abstractmethod
    async def register_worker(self, *jobs: str, concurrency: int = 1, **details: Any) -> Worker:
        """Register a worker that serves the jobs, which are registered already."""

    @abstractmethod
    async def found_job(
        self, name: str = "add", *, room: str = "lab", category: str = "tasks", **details: Any
    ) -> Worker:
        """Register a job that is kept only as long as it is needed, and return its first worker."""

    @abstractmethod
    async def submit_many(self, *tasks: dict[str, Any], room: str = "lab") -> list[Task]:
        """Submit tasks, each with its `job` and options, all or none."""

    @abstractmethod
    async def get(self, task: Task) -> Task:
        """Return the task as it is now."""

    @abstractmethod
    async def runs(self, task: Task) -> list[dict[str, Any]]:
        """Return the task's runs, the first one first."""

    @abstractmethod
    async def act(self, action: str, task: Task, **fields: Any) -> Task:
        """Apply a verb."""

    @abstractmethod
    async def actions(self, action: str, **fields: Any) -> dict[str, Any]:
        """Apply a verb in bulk, to `ids` or by `filter`."""

    @abstractmethod
    async def edit(self, task: Task, **changes: Any) -> Task:
        """Change a task that does not run."""

    @abstractmethod
    async def pause_queue(self, job: str, *, paused: bool = True) -> dict[str, Any]:
        """Pause a queue, or resume it."""

    @abstractmethod
    async def positions(self, job: str = JOB) -> dict[str, int]:
        """Return the queue position of each pending task of the job."""

    async def submit(self, job: str = JOB, *, room: str | None = None, **options: Any) -> Task:
        """Submit one task, from the job's room unless `room` is another."""
        [task] = await self.submit_many({"job": job, **options}, room=room or job.split(":", 1)[0])
        return task

    async def cancel(self, task: Task, **fields: Any) -> Task:
        return await self.act("cancel", task, **fields)

    async def pause(self, task: Task, **fields: Any) -> Task:
        return await self.act("pause", task, **fields)

    async def resume(self, task: Task, **fields: Any) -> Task:
        return await self.act("resume", task, **fields)

    async def rerun(self, task: Task, **fields: Any) -> Task:
        return await self.act("rerun", task, **fields)

    async def resolve(self, task: Task, **fields: Any) -> Task:
        return await self.act("resolve", task, **fields)

    # What exists over HTTP alone

    async def status(self, task: Task, status: str, **fields: Any) -> Task:
        """Update the status as older clients do."""
        return told(await self.http.patch(f"/v1/tasks/{task['id']}", json={"status": status, **fields}))  # type: ignore[no-any-return]

    async def job(self, name: str = JOB, *, room: str | None = None) -> dict[str, Any]:
        """Return the job, as seen from its own room unless `room` is another."""
        path = f"/v1/rooms/{room or name.split(':', 1)[0]}/jobs/{name}"
        return told(await self.http.get(path))  # type: ignore[no-any-return]

    async def worker(self, worker_id: str) -> dict[str, Any]:
        """Return a worker."""
        return told(await self.http.get(f"/v1/workers/{worker_id}"))  # type: ignore[no-any-return]

    async def logs(self, task: Task) -> list[str]:
        """Return the messages that the task's code logged."""
        items = told(await self.http.get(f"/v1/tasks/{task['id']}/logs"))["items"]
        return [item["message"] for item in items]

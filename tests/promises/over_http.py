"""The words over plain HTTP."""

from typing import Any

from tests.promises.problems import told
from tests.promises.words import JOB, Task, User, Worker, run_of


class HttpWorker(Worker):
    """A worker that polls."""

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        return told(await self.user.http.post(path, json=body))

    async def claim(self, most: int = 1, *, wait: float = 0) -> list[Task]:
        body = {"worker_id": self.id, "tasks": most, "wait": wait}
        return (await self._post("/v1/tasks/claim", body))["tasks"]  # type: ignore[no-any-return]

    async def serve(self, *jobs: str) -> None:
        for name in jobs:
            job = await self.user.job(name)
            body = {"category": job["category"], "name": job["name"], "schema": job["schema"], "worker_id": self.id}
            told(await self.user.http.put(f"/v1/rooms/{job['room_id']}/jobs", json=body))

    async def report(self, kind: str, task: Task, *, run_id: int | None = None, **fields: Any) -> Task:
        run = run_of(task, run_id)
        return await self._post(f"/v1/tasks/{run['task_id']}/runs/{run['run_id']}/{kind}", fields)  # type: ignore[no-any-return]

    async def heartbeat(
        self, *runs: Task, every: bool = False, stopped: list[Task] | None = None, **fields: Any
    ) -> dict[str, Any]:
        body: dict[str, Any] = {} if every else {"tasks": [run_of(task) for task in runs]}
        body |= {"stopped": [run_of(task) for task in stopped or ()], **fields}
        return told(await self.user.http.patch(f"/v1/workers/{self.id}", json=body))  # type: ignore[no-any-return]

    async def hand_back(self, task: Task) -> Task:
        return await self.exception(task, "returned")

    async def leave(self) -> None:
        told(await self.user.http.delete(f"/v1/workers/{self.id}"))


class HttpUser(User):
    """Somebody with a token and curl."""

    async def register_job(
        self, name: str = "add", *, room: str = "lab", category: str = "tasks", **details: Any
    ) -> dict[str, Any]:
        body = {"category": category, "name": name, "retain": True, **details}
        return told(await self.http.put(f"/v1/rooms/{room}/jobs", json=body))  # type: ignore[no-any-return]

    async def register_worker(self, *jobs: str, concurrency: int = 1, **details: Any) -> Worker:
        made = told(await self.http.post("/v1/workers", json={"concurrency": concurrency, **details}))
        worker = HttpWorker(self, made["id"])
        await worker.serve(*jobs)
        return worker

    async def found_job(
        self, name: str = "add", *, room: str = "lab", category: str = "tasks", **details: Any
    ) -> Worker:
        body = {"category": category, "name": name, **details}
        made = told(await self.http.put(f"/v1/rooms/{room}/jobs", json=body))
        return HttpWorker(self, made["worker_id"])

    async def submit_many(self, *tasks: dict[str, Any], room: str = "lab") -> list[Task]:
        if len(tasks) == 1:
            body = dict(tasks[0])
            return [told(await self.http.post(f"/v1/rooms/{room}/tasks/{body.pop('job')}", json=body))]
        return told(await self.http.post(f"/v1/rooms/{room}/tasks", json={"tasks": list(tasks)}))["tasks"]  # type: ignore[no-any-return]

    async def get(self, task: Task) -> Task:
        return told(await self.http.get(f"/v1/tasks/{task['id']}"))  # type: ignore[no-any-return]

    async def runs(self, task: Task) -> list[dict[str, Any]]:
        return told(await self.http.get(f"/v1/tasks/{task['id']}/runs"))["items"]  # type: ignore[no-any-return]

    async def act(self, action: str, task: Task, **fields: Any) -> Task:
        return told(await self.http.post(f"/v1/tasks/{task['id']}/{action}", json=fields))  # type: ignore[no-any-return]

    async def actions(self, action: str, **fields: Any) -> dict[str, Any]:
        return told(await self.http.post("/v1/tasks/actions", json={"action": action, **fields}))  # type: ignore[no-any-return]

    async def edit(self, task: Task, **changes: Any) -> Task:
        return told(await self.http.patch(f"/v1/tasks/{task['id']}", json=changes))  # type: ignore[no-any-return]

    async def pause_queue(self, job: str, *, paused: bool = True) -> dict[str, Any]:
        path = f"/v1/rooms/{job.split(':', 1)[0]}/jobs/{job}"
        return told(await self.http.patch(path, json={"paused": paused}))  # type: ignore[no-any-return]

    async def positions(self, job: str = JOB) -> dict[str, int]:
        path = f"/v1/rooms/{job.split(':', 1)[0]}/jobs/{job}/tasks"
        items = told(await self.http.get(path, params={"status": "pending", "limit": 500}))["items"]
        return {item["id"]: item["queue_position"] for item in items}

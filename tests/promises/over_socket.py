"""The words over the session socket, frame by frame as docs/protocol.md has them."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import httpx

from tests.live.sockets import Socket, connected
from tests.promises.problems import Problem
from tests.promises.words import JOB, Task, User, Worker, run_of
from treadle.wire.runs import Claim
from treadle_server.testing import Served


async def asked(socket: Socket, op: str, **fields: Any) -> Any:
    """Return the answer's `ok`. Raises `Problem`."""
    answer = await socket.ask(op, **fields)
    if "problem" in answer:
        raise Problem(answer["problem"])
    return answer["ok"]


def accepted(answer: dict[str, Any]) -> None:
    """Raises `Problem` when a report was refused."""
    if answer["status"] != 200:
        raise Problem(answer)


def whole(claim: dict[str, Any]) -> Task:
    """Return a pushed claim with what it leaves out: null, or the default that the model names."""
    return Claim.model_validate(claim).model_dump(mode="json")


_HELD_BACK = {"draining": True, "prefetch": 0}
"""A worker takes nothing unless it is asked to, and nothing ahead, as the machine's pace would have it."""


class SocketWorker(Worker):
    """A worker that claims are pushed to while it does not drain."""

    def __init__(self, user: "SocketUser", worker_id: str, socket: Socket, opening: dict[str, Any]) -> None:
        super().__init__(user, worker_id)
        self.socket = socket
        self._opening = opening

    def _pushed(self) -> list[Task]:
        claims = [push for push in self.socket.pushes if push["push"] == "claim"]
        self.socket.pushes = [push for push in self.socket.pushes if push["push"] != "claim"]
        return [whole(task) for push in claims for task in push["tasks"]]

    async def claim(self, most: int = 1, *, wait: float = 0) -> list[Task]:
        await asked(self.socket, "beat", tasks=[], draining=False)
        found: list[Task] = []
        if wait:
            try:
                async with asyncio.timeout(wait):
                    found = [whole(task) for task in await self.socket.claims(1)]
            except TimeoutError:
                found = []
        # Its batch hands out before it is answered, so that all claims have come before the answer.
        await asked(self.socket, "beat", tasks=[], draining=True)
        found += self._pushed()
        assert len(found) <= most, "the worker has room for more than it asks for"
        return found

    async def serve(self, *jobs: str) -> None:
        self._opening["links"] += jobs
        worker = {**self._opening["worker"], "id": self.id}
        await asked(self.socket, "open", **{**self._opening, "worker": worker})

    async def report(self, kind: str, task: Task, *, run_id: int | None = None, **fields: Any) -> Task:
        given = {key: value for key, value in fields.items() if value is not None or key == "checkpoint"}
        ok = await asked(self.socket, "reports", reports=[{"kind": kind, **run_of(task, run_id), **given}])
        accepted(ok["answers"][0])
        return await self.user.get(task)

    async def heartbeat(
        self, *runs: Task, every: bool = False, stopped: list[Task] | None = None, **fields: Any
    ) -> dict[str, Any]:
        body: dict[str, Any] = {} if every else {"tasks": [run_of(task) for task in runs]}
        body |= {"stopped": [run_of(task) for task in stopped or ()], **fields}
        return await asked(self.socket, "beat", **body)  # type: ignore[no-any-return]

    async def hand_back(self, task: Task) -> Task:
        accepted((await asked(self.socket, "return", runs=[run_of(task)]))["answers"][0])
        return await self.user.get(task)

    async def leave(self) -> None:
        await asked(self.socket, "close")


class SocketUser(User):
    """Somebody with a token and one connection, and one more for each of their workers."""

    def __init__(
        self, name: str, token: str, http: httpx.AsyncClient, served: Served, socket: Socket, stack: AsyncExitStack
    ) -> None:
        super().__init__(name, token, http)
        self.socket = socket
        self._served = served
        self._stack = stack

    async def connect(self) -> Socket:
        """Open another connection."""
        return await self._stack.enter_async_context(connected(self._served, self.token))

    async def register_job(
        self, name: str = "add", *, room: str = "lab", category: str = "tasks", **details: Any
    ) -> dict[str, Any]:
        body = {"category": category, "name": name, "retain": True, **details}
        return await asked(self.socket, "register", room=room, **body)  # type: ignore[no-any-return]

    async def register_worker(self, *jobs: str, concurrency: int = 1, **details: Any) -> Worker:
        socket = await self.connect()
        opening = {"worker": {"concurrency": concurrency, **details}, "links": list(jobs), **_HELD_BACK}
        made = await asked(socket, "open", **opening)
        return SocketWorker(self, made["worker"]["id"], socket, opening)

    async def found_job(
        self, name: str = "add", *, room: str = "lab", category: str = "tasks", **details: Any
    ) -> Worker:
        socket = await self.connect()
        job = {"room": room, "category": category, "name": name, **details}
        opening: dict[str, Any] = {"worker": {}, "jobs": [job], "links": [], **_HELD_BACK}
        made = await asked(socket, "open", **opening)
        return SocketWorker(self, made["worker"]["id"], socket, opening)

    async def submit_many(self, *tasks: dict[str, Any], room: str = "lab") -> list[Task]:
        return (await asked(self.socket, "submit", room=room, tasks=list(tasks)))["tasks"]  # type: ignore[no-any-return]

    async def get(self, task: Task) -> Task:
        return await asked(self.socket, "get", id=task["id"])  # type: ignore[no-any-return]

    async def runs(self, task: Task) -> list[dict[str, Any]]:
        return (await asked(self.socket, "runs", id=task["id"]))["items"]  # type: ignore[no-any-return]

    async def act(self, action: str, task: Task, **fields: Any) -> Task:
        return await asked(self.socket, "action", id=task["id"], action=action, **fields)  # type: ignore[no-any-return]

    async def actions(self, action: str, **fields: Any) -> dict[str, Any]:
        return await asked(self.socket, "actions", action=action, **fields)  # type: ignore[no-any-return]

    async def edit(self, task: Task, **changes: Any) -> Task:
        return await asked(self.socket, "edit", id=task["id"], **changes)  # type: ignore[no-any-return]

    async def pause_queue(self, job: str, *, paused: bool = True) -> dict[str, Any]:
        return await asked(self.socket, "job", job=job, paused=paused)  # type: ignore[no-any-return]

    async def positions(self, job: str = JOB) -> dict[str, int]:
        window = {"filter": {"job": job, "status": ["pending"]}, "order": "position", "limit": 500}
        await asked(self.socket, "watch", sub="positions", topic="tasks", window=window)
        rows = (await self.socket.pushed("snapshot", sub="positions"))["rows"]
        await asked(self.socket, "unwatch", sub="positions")
        return {row["id"]: row["queue_position"] for row in rows}

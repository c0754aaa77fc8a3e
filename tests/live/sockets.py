"""The session socket as docs/protocol.md describes it, spoken without the SDK."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from treadle_server.testing import Served

PATIENCE = 60


def updated_in(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tasks, of a push of `events`, of which it tells how they are now."""
    return [event["task"] for event in events if event["type"] == "task.updated"]


class Socket:
    """One connection: `call` asks and returns the answer, `pushed` the next push of a kind."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.pushes: list[dict[str, Any]] = []
        self.frames = 0
        self._numbers = itertools.count(1)
        self._answers: dict[int | None, asyncio.Future[dict[str, Any]]] = {}
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for text in self.connection:
                self.frames += 1
                for item in json.loads(text)["items"]:
                    if "re" in item:
                        self._answers.pop(item["re"]).set_result(item)
                    else:
                        self.pushes.append(item)
                self._news.set()
        except ConnectionClosed:
            return

    async def send(self, *items: dict[str, Any]) -> list[asyncio.Future[dict[str, Any]]]:
        """Send requests in one frame; return a future for each answer."""
        futures = []
        numbered = []
        for item in items:
            number = next(self._numbers)
            future = self._answers[number] = asyncio.get_running_loop().create_future()
            futures.append(future)
            numbered.append({"n": number, **item})
        await self.connection.send(json.dumps({"items": numbered}))
        return futures

    @asynccontextmanager
    async def asking(self, *numbers: int | None) -> AsyncIterator[dict[int | None, dict[str, Any]]]:
        """Give a dict that has the answers to requests of these numbers once the block, which sends them, is over."""
        told: dict[int | None, dict[str, Any]] = {}
        for number in numbers:
            self._answers[number] = asyncio.get_running_loop().create_future()
        waiting = {number: self._answers[number] for number in numbers}
        yield told
        async with asyncio.timeout(PATIENCE):
            told |= {number: await future for number, future in waiting.items()}

    async def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Return the whole answer."""
        [future] = await self.send({"op": op, **fields})
        async with asyncio.timeout(PATIENCE):
            return await future

    async def call(self, op: str, **fields: Any) -> Any:
        """Return the answer's `ok`; fail on a problem."""
        answer = await self.ask(op, **fields)
        assert "ok" in answer, answer
        return answer["ok"]

    async def refused(self, op: str, **fields: Any) -> str:
        """Return the name of the problem that answers."""
        answer = await self.ask(op, **fields)
        assert "problem" in answer, answer
        assert answer["problem"]["status"] >= 400
        return str(answer["problem"]["type"].removeprefix("/v1/problems/"))

    async def pushed(self, kind: str, **members: Any) -> dict[str, Any]:
        """Wait for the next push of this kind with these members, take it and return it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for i, push in enumerate(self.pushes):
                    if push["push"] == kind and all(push.get(name) == value for name, value in members.items()):
                        return self.pushes.pop(i)
                self._news.clear()
                await self._news.wait()

    async def claims(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many claims."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            found += (await self.pushed("claim"))["tasks"]
        return found

    async def closed(self) -> int:
        """Wait until the server has closed, and return the code."""
        async with asyncio.timeout(PATIENCE):
            await self.connection.wait_closed()
        assert self.connection.close_code is not None
        return self.connection.close_code


def url_of(served: Served) -> str:
    """Return the socket's URL."""
    return served.url.replace("http", "ws", 1) + "/v1/session"


@asynccontextmanager
async def connected(
    served: Served, token: str | None = None, more: dict[str, str] | None = None
) -> AsyncIterator[Socket]:
    """Connect and say hello; `more` are further headers."""
    headers = {"Authorization": f"Bearer {token or served.token}", **(more or {})}
    async with connect(url_of(served), additional_headers=headers, max_size=None) as connection:
        socket = Socket(connection)
        await socket.call("hello", protocol=1)
        yield socket


def ref(task: dict[str, Any]) -> dict[str, Any]:
    """Return the run of a claim."""
    return {"task_id": task["id"], "run_id": task["run_id"]}


JOB = {"room": "lab", "category": "tasks", "name": "add", "retain": True}
NAME = "lab:tasks:add"


async def submit(socket: Socket, count: int = 1, **options: Any) -> list[dict[str, Any]]:
    """Submit tasks of the job."""
    wait = options.pop("wait", False)
    tasks = [{"job": NAME, "payload": {"n": n}, **options} for n in range(count)]
    return list((await socket.call("submit", room="lab", tasks=tasks, wait=wait))["tasks"])

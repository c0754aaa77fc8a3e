"""A run that uploads, over plain HTTP, and who looks at what it stored."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.api.rooms import Room, make_room, problem
from tests.conftest import FakeClock
from treadle_server.services.artifacts import ArtifactSweeper
from treadle_server.testing import Served


class Studio:
    """A room with a job, the superuser who works in it, and one without a token who has URLs alone."""

    def __init__(self, served: Served, clock: FakeClock, room: Room, nobody: httpx.AsyncClient) -> None:
        self.served = served
        self.clock = clock
        self.room = room
        self.root = room.client
        self.nobody = nobody
        self.objects = served.app.state.ctx.artifacts.objects
        self.sweeper = ArtifactSweeper(served.engine, self.objects)

    async def sweep(self) -> None:
        """Sweep, and look through all of the store when that is due."""
        while not await self.sweeper.turn():
            pass

    async def started(self, **options: Any) -> str:
        """Return a task whose run 0 has started."""
        await self.room.submit(**options)
        return str((await self.room.start())["id"])

    async def announce(self, task: str, body: bytes = b"hello", *, run: int = 0, **fields: Any) -> httpx.Response:
        """Announce an upload of `body`."""
        wanted = {"name": "a.txt", "content_type": "text/plain", "content_length": len(body), **fields}
        return await self.root.post(f"/v1/tasks/{task}/runs/{run}/artifacts", json=wanted)

    async def announced(self, task: str, body: bytes = b"hello", **fields: Any) -> dict[str, Any]:
        """Announce an upload that the server awaits then."""
        answer = await self.announce(task, body, **fields)
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()  # type: ignore[no-any-return]

    async def put(self, upload: dict[str, Any], body: Any = b"hello", **headers: str) -> httpx.Response:
        """Put bytes where an announcement said, without a token."""
        return await self.nobody.put(upload["put_url"], content=body, headers=upload["headers"] | headers)

    async def store(self, task: str, body: bytes = b"hello", **fields: Any) -> dict[str, Any]:
        """Announce and put; return the stored artifact."""
        answer = await self.put(await self.announced(task, body, **fields), body)
        assert answer.status_code == 201, answer.text
        return answer.json()  # type: ignore[no-any-return]

    async def listed(self, task: str, **params: Any) -> list[dict[str, Any]]:
        """Return what the task has stored."""
        answer = await self.root.get(f"/v1/tasks/{task}/artifacts", params=params)
        assert answer.status_code == 200, answer.text
        assert answer.json()["total"] == len(answer.json()["items"])
        return answer.json()["items"]  # type: ignore[no-any-return]

    async def names(self, task: str, **params: Any) -> list[str]:
        """Return the names of what the task has stored."""
        return [item["name"] for item in await self.listed(task, **params)]

    async def fetch(self, task: str, name: str = "a.txt", **headers: str) -> httpx.Response:
        """Fetch an artifact."""
        return await self.root.get(f"/v1/tasks/{task}/artifacts/{name}", headers=headers)

    async def report(self, task: str, kind: str, *, run: int = 0, **fields: Any) -> None:
        """Report of a run."""
        answer = await self.root.post(f"/v1/tasks/{task}/runs/{run}/{kind}", json=fields or None)
        assert answer.status_code == 200, answer.text

    @property
    def files(self) -> list[Path]:
        """Every file in the directory of artifacts."""
        directory = self.served.settings.data_dir / "artifacts"
        return sorted(path for path in directory.rglob("*") if path.is_file())


@asynccontextmanager
async def opened(served: Served, clock: FakeClock) -> AsyncIterator[Studio]:
    """Give a studio at a server."""
    async with (
        httpx.AsyncClient(base_url=served.url, headers=served.headers, timeout=30) as root,
        httpx.AsyncClient(timeout=30) as nobody,
    ):
        yield Studio(served, clock, await make_room(root), nobody)


__all__ = ["Studio", "opened", "problem"]

"""A server of the session socket that says what a test tells it to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from pydantic_core import from_json, to_json
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from treadle.transport.session import Session

Answer = Callable[[dict[str, Any]], Any]
HELLO = {"protocol": 1, "stream": "s", "seq": 0, "server": "0.1.0", "user": "u", "superuser": True}
HELLO |= {"max_bytes": 16 * 1024 * 1024}


class FakeServer:
    """Keeps every frame that came; `answer` returns an item's `ok`, a problem, or None for silence."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.frames: list[list[dict[str, Any]]] = []
        self.connections: list[ServerConnection] = []
        self.tokens: list[str | None] = []
        self.connected = asyncio.Event()
        self.refuse: HTTPStatus | None = None
        self.hello = HELLO
        self.url = ""

    @property
    def items(self) -> list[dict[str, Any]]:
        """Every item that came but the hellos."""
        return [item for frame in self.frames for item in frame if item["op"] != "hello"]

    async def push(self, **item: Any) -> None:
        """Push an item on the last connection."""
        await self.connections[-1].send(to_json({"items": [item]}), text=True)

    async def handle(self, ws: ServerConnection) -> None:
        self.connections.append(ws)
        assert ws.request is not None
        self.tokens.append(ws.request.headers.get("Authorization"))
        async for message in ws:
            frame = from_json(message)["items"]
            self.frames.append(frame)
            answers = [item for item in map(self._reply, frame) if item is not None]
            if answers:
                await ws.send(to_json({"items": answers}), text=True)
            self.connected.set()

    def process_request(self, ws: ServerConnection, request: Request) -> Response | None:
        if self.refuse is None:
            return None
        return ws.respond(self.refuse, "no\n")

    def _reply(self, item: dict[str, Any]) -> dict[str, Any] | None:
        said = self.hello if item["op"] == "hello" else self.answer(item)
        if said is None:
            return None
        kind = "problem" if isinstance(said, dict) and "title" in said else "ok"
        return {"re": item["n"], kind: said}


@asynccontextmanager
async def fake_server(answer: Answer) -> AsyncIterator[FakeServer]:
    """Serve on a free port during the block."""
    fake = FakeServer(answer)
    async with serve(fake.handle, "127.0.0.1", 0, process_request=fake.process_request) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        fake.url = f"http://127.0.0.1:{port}"
        yield fake


@asynccontextmanager
async def session_to(fake: FakeServer, *more: str, **options: Any) -> AsyncIterator[Session]:
    """Have a session with a fake server, or else with one of `more`, during the block."""
    session = Session((fake.url, *more), "secret", **{"on_push": lambda _: None, **options})
    async with asyncio.TaskGroup() as group:
        group.create_task(session.run())
        yield session
        await session.close()


def echo(item: dict[str, Any]) -> Any:
    """Answer a request with itself."""
    return {"echo": item}

"""Websockets in memory: text messages in order, each way, that come late, are torn, or never come."""

import asyncio
import itertools
import json
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.loop import Process, SimulatedLoop

PATIENCE = 6.0
"""Seconds that somebody waits for an answer."""

Message = dict[str, Any]
GONE: Message = {"type": "websocket.disconnect", "code": 1006}


class End:
    """One side of a wire: what has come, and who waits for it."""

    def __init__(self, loop: SimulatedLoop, process: Process) -> None:
        self.loop = loop
        self.context = process.context()
        self.came: deque[Message] = deque()
        self.last_at = 0.0
        self._waiting: asyncio.Future[None] | None = None

    def put(self, message: Message) -> None:
        """Take a message that has come."""
        self.came.append(message)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def take(self) -> Message:
        """Return the next message."""
        while not self.came:
            self._waiting = self.loop.create_future()
            await self._waiting
        return self.came.popleft()


@dataclass
class Weather:
    """How messages go."""

    latest: float = 0.003
    """Seconds that one takes at most."""
    cut: float = 0.0
    """Of messages at which the connection breaks: before, in the midst of, or behind it."""


class Wire:
    """A connection between a client's process and a server's."""

    def __init__(
        self, loop: SimulatedLoop, chance: random.Random, weather: Weather, client: Process, server: Process
    ) -> None:
        self._loop, self._chance, self.weather = loop, chance, weather
        self.client, self.server = End(loop, client), End(loop, server)
        self.client_name, self.server_name = client.name, server.name
        self.is_cut = self.drops = False
        self.swallows_until = 0.0
        self.server.put({"type": "websocket.connect"})

    def send(self, to: End, message: Message) -> None:
        """Send a message. Raises `OSError` when the connection is known to be broken."""
        if self.is_cut:
            raise ConnectionResetError("the connection is broken")
        draw = self._chance.random()
        if draw < self.weather.cut and "text" in message:
            if self._chance.random() < 0.3:
                # As a broken proxy may pass it on.
                self._deliver(to, {**message, "text": message["text"][: int(len(message["text"]) * draw * 10) % 97]})
            elif self._chance.random() < 0.5:
                self._deliver(to, message)
            self.cut()
            return
        self._deliver(to, message)

    def _deliver(self, to: End, message: Message) -> None:
        at = max(self._loop.time() + self._chance.random() * self.weather.latest, self.swallows_until)
        to.last_at = at = max(at, to.last_at + 1e-6)
        self._loop.call_at(at, self._arrive, to, message, context=to.context)

    def _arrive(self, to: End, message: Message) -> None:
        if not self.drops:
            to.put(message)

    def cut(self) -> None:
        """Break it: what is on its way comes, or does not; each side finds out by itself, now or in a while."""
        if self.is_cut:
            return
        self.is_cut = True
        self.drops = self._chance.random() < 0.5
        for end in (self.client, self.server):
            at = max(end.last_at, self._loop.time() + self._chance.choice((0, 0, 0.1, 2)) * self._chance.random())
            self._loop.call_at(at + 1e-6, end.put, dict(GONE), context=end.context)

    # The server's side, as ASGI has it

    async def receive(self) -> Message:
        """Return the next message for the server."""
        return await self.server.take()

    async def answer(self, message: Message) -> None:
        """Send a message of the server's."""
        await asyncio.sleep(0)
        if message["type"] == "websocket.close":
            if not self.is_cut:
                self._deliver(self.client, message)
                self.is_cut = True
                self._loop.call_soon(self.server.put, dict(GONE), context=self.server.context)
        elif message["type"] != "websocket.accept":
            self.send(self.client, message)


Push = Callable[[dict[str, Any], float], None]


@dataclass(eq=False)
class Talk:
    """The client's side: asks, and hands over what is pushed."""

    wire: Wire
    push: Push
    asked: dict[int, tuple[asyncio.Future[Any], float]] = field(default_factory=dict)
    heard_at: float = 0.0
    """When the request was sent whose answer came last."""
    is_over: bool = False

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        self.over = asyncio.Event()

    async def read(self) -> None:
        """Take what comes until the connection breaks."""
        try:
            while True:
                message = await self.wire.client.take()
                if "text" not in message:
                    return
                for item in json.loads(message["text"])["items"]:
                    self._take(item)
        except json.JSONDecodeError:
            self.wire.cut()
        finally:
            self.is_over = True
            self.over.set()
            for future, _ in self.asked.values():
                if not future.done():
                    future.set_exception(ConnectionResetError("the connection broke before the answer"))
                    future.exception()

    def _take(self, item: dict[str, Any]) -> None:
        if item.get("re") in self.asked:
            future, sent = self.asked.pop(item["re"])
            self.heard_at = max(self.heard_at, sent)
            if not future.done():
                future.set_result(item)
        elif "push" in item:
            self.push(item, self.heard_at)

    def send(self, *requests: dict[str, Any]) -> list[asyncio.Future[Any]]:
        """Send requests in one frame. Raises `OSError`."""
        if self.is_over:
            raise ConnectionResetError("the connection is over")
        items, futures = [], []
        for request in requests:
            number, future = next(self._numbers), self._loop.create_future()
            self.asked[number] = future, self._loop.time()
            items.append({"n": number, **request})
            futures.append(future)
        self.wire.send(self.wire.server, {"type": "websocket.receive", "text": json.dumps({"items": items})})
        return futures

    async def greet(self) -> None:
        """Say hello. Raises `OSError`, and `TimeoutError` when no answer comes."""
        if "ok" not in await self.ask("hello", protocol=1):
            raise ConnectionRefusedError("not now")

    async def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Return the answer, `ok` or `problem`. Raises `OSError`, and `TimeoutError` when none comes."""
        [future] = self.send({"op": op, **fields})
        async with asyncio.timeout(PATIENCE):
            answer: dict[str, Any] = await future
            return answer


@asynccontextmanager
async def reading(talk: Talk) -> AsyncIterator[None]:
    """Take what comes during the block, at whose end the connection is broken."""
    task = asyncio.create_task(talk.read(), name="reads")
    try:
        yield
    finally:
        talk.wire.cut()
        task.cancel()


def scope() -> dict[str, Any]:
    """Return the ASGI scope of a connection."""
    return {
        "type": "websocket",
        "path": "/v1/session",
        "headers": [(b"host", b"127.0.0.1:7420")],
        "client": ("127.0.0.1", 1),
        "query_string": b"",
        "subprotocols": [],
    }

"""Puts the dashboard up on the mock server, and reads what stands on its screen."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from textual import events
from textual.keys import _character_to_key
from textual.pilot import Pilot

from tests.tui.mock import FrozenClock, MockServer
from treadle_tui.app import Dashboard
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.setup.connection import Connection
from treadle_tui.core.state.model import Model

NEVER = 86_400.0


def dashboard(
    server: MockServer, clock: FrozenClock, *, connection: Connection | None = None, **options: Any
) -> Dashboard:
    """A dashboard that pings nobody: its latency and its clock stand still; what `Connection` takes is for that."""
    described = {name: options.pop(name) for name in ("server_name", "read_only", "production") if name in options}
    connection = connection or Connection(link=server, clock=clock, **described)
    model = Model(connection.clock)
    return Dashboard(model, Feed(model, connection.link, ping_seconds=NEVER), connection, **options)


async def settle(pilot: Pilot[None]) -> None:
    """Let the feed ask, the server answer, and the screen be drawn, until nothing moves any more."""
    app = pilot.app
    assert isinstance(app, Dashboard)
    for _ in range(2):
        await pilot.pause()
        app.flush()
    await pilot.pause()


@dataclass
class Stage:
    """The running dashboard."""

    app: Dashboard
    pilot: Pilot[None]
    server: MockServer
    clock: FrozenClock

    async def press(self, *keys: str) -> None:
        """Press one key after another, each when the screen shows what the one before it did."""
        for key in keys:
            await self.pilot.press(key)
            await settle(self.pilot)

    async def burst(self, *keys: str) -> None:
        """Let keys come all at once, as from a quick hand beside a busy program."""
        for key in keys:
            is_character = len(key) == 1
            self.app.post_message(
                events.Key(_character_to_key(key) if is_character else key, key if is_character else None)
            )
        await settle(self.pilot)

    async def paste(self, text: str) -> None:
        """Put a text where keys would go, as a terminal does with what is pasted into it."""
        self.app.post_message(events.Paste(text))
        await settle(self.pilot)

    async def settle(self) -> None:
        await settle(self.pilot)

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        if self.server.live:
            self.app.model.heard(0.004)
        self.app.tick()
        await settle(self.pilot)

    def lines(self) -> list[str]:
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    def text(self) -> str:
        return "\n".join(self.lines())

    def line_of(self, word: str) -> str:
        """The first line in which a word stands."""
        return next(line for line in self.lines() if word in line)

    def highlighted(self) -> str:
        """The line of the focused grid in which the cursor is."""
        return next(line for line in reversed(self.lines()) if line.startswith(("│ >", "| >")))

    def asked(self, op: str) -> list[dict[str, Any]]:
        return [request for request in self.server.asked if request["op"] == op]

    async def until(self, condition: Callable[[], bool]) -> None:
        # What is waited for is a program that a busy machine starts late.
        try:
            async with asyncio.timeout(60):
                while not condition():
                    await settle(self.pilot)
        except TimeoutError:
            raise AssertionError(f"it did not come to that; the screen shows\n{self.text()}") from None


@asynccontextmanager
async def staged(
    server: MockServer, clock: FrozenClock, *, size: tuple[int, int] = (120, 36), **options: Any
) -> AsyncIterator[Stage]:
    """The dashboard, up and settled."""
    app = dashboard(server, clock, **options)
    async with app.run_test(size=size) as pilot:
        stage = Stage(app, pilot, server, clock)
        await stage.settle()
        app.model.heard(0.004)
        await stage.settle()
        yield stage


async def lose_highlighted(stage: Stage, server: MockServer) -> str:
    """Have the task go that is highlighted, the second of the list; return its id."""
    await stage.press("2", "down")
    key = list(server.tasks)[1]
    del server.tasks[key]
    server.push_topic("tasks")
    await stage.settle()
    return key


async def typed(stage: Stage, line: str) -> None:
    """Type a `:` command."""
    await stage.press("colon")
    await stage.paste(line)
    await stage.press("enter")


@asynccontextmanager
async def slow(stage: Stage) -> AsyncIterator[None]:
    """While the block lasts the server answers nothing; then all of it."""
    stage.server.gate = asyncio.Event()
    yield
    stage.server.gate.set()
    stage.server.gate = None
    for _ in range(3):
        await stage.settle()

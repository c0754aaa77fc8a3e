"""The dashboard on a terminal that takes all that is drawn and shows it to nobody: all of the work, to be measured."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import ClassVar

from textual.drivers.headless_driver import HeadlessDriver
from textual.events import Key

import treadle_tui
from treadle_tui.app import Dashboard
from treadle_tui.core.live.feed import Feed, Link
from treadle_tui.core.state.model import Model

SIZE = (120, 36)


class Sink(HeadlessDriver):
    """A terminal without a screen, for which everything is rendered to the last byte."""

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        """Take it."""


class Timed(Dashboard):
    """Notes when it has drawn something."""

    # Textual looks for style sheets beside the class that it runs.
    CSS_PATH: ClassVar[list[str | Path]] = [Path(treadle_tui.__file__).parent / path for path in Dashboard.CSS_PATH]  # type: ignore[assignment]

    def __init__(self, model: Model, feed: Feed) -> None:
        super().__init__(model, feed)
        self.driver_class = Sink
        self.paints = 0
        self.painted_at = 0.0
        self._awaited: tuple[Callable[[], object], asyncio.Event] | None = None

    def post_display_hook(self) -> None:
        """Textual has just drawn."""
        self.paints += 1
        self.painted_at = perf_counter()
        if self._awaited is not None and self._awaited[0]():
            self._awaited[1].set()

    async def painted(self, shows: Callable[[], object]) -> float:
        """Wait for the first drawing after which something is true, and return when that was done."""
        drawn = asyncio.Event()
        self._awaited = (shows, drawn)
        async with asyncio.timeout(30):
            await drawn.wait()
        self._awaited = None
        return self.painted_at

    def press(self, key: str) -> None:
        """A key comes from the terminal."""
        self.post_message(Key(key, key if len(key) == 1 else None))

    def text(self) -> str:
        """Return what stands on the screen."""
        return "\n".join(strip.text for strip in self.screen._compositor.render_strips())


class Counted:
    """A link that counts what it is asked, and notes when the first tasks came."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.asked: list[str] = []
        self.tasks_at = 0.0

    async def run(self, sink: Callable[..., None]) -> None:
        def noted(event: object) -> None:
            push = getattr(event, "push", {})
            if not self.tasks_at and push.get("topic") == "tasks" and push.get("rows"):
                self.tasks_at = perf_counter()
            sink(event)

        await self._link.run(noted)

    async def request(self, op: str, **fields: object) -> dict[str, object]:
        self.asked.append(op)
        return await self._link.request(op, **fields)

    @property
    def received(self) -> int:
        return self._link.received

    def reset(self) -> None:
        self._link.reset()


@asynccontextmanager
async def shown(link: Link) -> AsyncIterator[Timed]:
    """The dashboard, running for the block."""
    model = Model()
    app = Timed(model, Feed(model, link))
    running = asyncio.create_task(app.run_async(size=SIZE))
    try:
        yield app
    finally:
        app.exit()
        await running

"""The dashboard's figures, each beside its bar: `python -m tests.bench.tui`, or `nox -s bench-tui`.

The numbers are those of behaviours 2 and 3. The server is a process of its own with 100,000 tasks; the events of the
second figure come from a scene without a server, so that exactly so many come.
"""

import asyncio
import os
import statistics
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import psutil

from tests.chaos.processes import ServerProcess, running_server
from tests.terminal.jobs import rotate
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import scene, task
from treadle import Client
from treadle.transport.bearer import Bearer
from treadle_tui.core.live.link import SessionLink

from .screened import Counted, Timed, shown

TASKS = 100_000
EVENTS = 2_000
"""A second."""

FRAMES = 10
"""A second."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Something measured, and what it must not reach."""

    name: str
    value: float
    bar: float
    unit: str

    @property
    def holds(self) -> bool:
        return self.value < self.bar

    def told(self, paint: float) -> str:
        """Return its line; a time also in paints of `paint` milliseconds, whatever the machine is busy with."""
        word = "ok" if self.holds else "MISSED"
        ratio = f"   {self.value / paint:5.1f} paints" if self.unit == "ms" else ""
        return f"{self.name:<58} {self.value:>8.1f} {self.unit:<3} < {self.bar:g} {self.unit:<3} {word:<6}{ratio}"


def p95(seconds: Sequence[float]) -> float:
    """Return the 95th percentile in milliseconds."""
    return statistics.quantiles(seconds, n=20)[-1] * 1000


def counted(server: ServerProcess) -> Counted:
    token = server.token
    return Counted(SessionLink((server.url,), Bearer(lambda: token)))


@asynccontextmanager
async def watched(server: ServerProcess) -> AsyncIterator[tuple[Timed, Counted]]:
    """The dashboard on the server, up."""
    link = counted(server)
    async with shown(link) as app:
        await app.painted(lambda: app.model.tasks.ready and app.model.tasks.order[0][-8:] in app.text())
        yield app, link


async def bare_paint() -> float:
    """Return how many milliseconds it takes to draw all of the same screen when there is no data, the middle of 50."""
    took = []
    async with shown(MockServer(FrozenClock())) as app:
        await app.painted(lambda: "No queues yet" in app.text())
        for _ in range(50):
            await asyncio.sleep(0.05)
            begun = perf_counter()
            app.screen.refresh()
            took.append(await app.painted(lambda: True) - begun)
    return statistics.median(took) * 1000


async def first_paint(server: ServerProcess) -> Figure:
    """From the arrival of the first tasks to their lines on the screen."""
    took = []
    for _ in range(5):
        async with watched(server) as (app, link):
            took.append(app.painted_at - link.tasks_at)
    return Figure(f"first paint after the data, {TASKS:,} matching tasks", max(took) * 1000, 150, "ms")


async def key_to_paint() -> Figure:
    """From a key to the highlight's new place, while rows change all the time."""
    clock = FrozenClock()
    server = scene(clock)
    rows = [task(number, queue_position=number) for number in range(1, 5_001)]
    server.tasks = {row["id"]: row for row in rows}
    server.total = TASKS
    took = []
    async with shown(server) as app:
        await app.painted(lambda: app.model.tasks.ready and app.model.tasks.order[0][-8:] in app.text())
        app.press("2")
        await asyncio.sleep(0.5)
        changing = asyncio.create_task(_change(server))
        for turn in range(200):
            took.append(await _pressed(app, "down" if turn % 40 < 20 else "up"))
            await asyncio.sleep(0.03)
        changing.cancel()
    return Figure(f"key to paint, p95, {EVENTS:,} events a second", p95(took), 50, "ms")


async def _pressed(app: Timed, key: str) -> float:
    before = _cursor(app)
    begun = perf_counter()
    app.press(key)
    return await app.painted(lambda: _cursor(app) != before) - begun


def _cursor(app: Timed) -> str:
    """The highlighted line as it is drawn: its first cells, in which ages are not."""
    return next((line[:20] for line in reversed(app.text().splitlines()) if line.startswith("│ >")), "")


async def _change(server: MockServer) -> None:
    sub = next(sub for sub, fields in server.watched.items() if fields["topic"] == "tasks")
    number = 0
    while True:
        begun = perf_counter()
        rows = list(server.tasks.values())[: EVENTS // FRAMES]
        for row in rows:
            number += 1
            row["version"] += 1
            row["progress"] = {"share": number % 100 / 100}
        server.seq += 1
        server.send(sub, rows=rows, total=TASKS)
        await asyncio.sleep(max(0.0, 1 / FRAMES - (perf_counter() - begun)))


async def commit_to_screen(server: ServerProcess, client: Client) -> Figure:
    """From the sending of a submit to its count on the screen: more than from its commit."""
    took = []
    async with watched(server) as (app, _):
        for turn in range(40):
            # At no fixed distance from the tenths of a second at which the server and the screen speak.
            await asyncio.sleep(0.2 + turn * 0.007)
            wanted = f"{app.model.every_queue().pending + 1:,}"
            begun = perf_counter()
            drawn = asyncio.create_task(app.painted(lambda wanted=wanted: wanted in app.text()))
            await client.submit(rotate.bind(angle=turn))
            took.append(await drawn - begun)
    return Figure("commit to screen, p95, counted from the submit", p95(took), 250, "ms")


async def idle(server: ServerProcess) -> list[Figure]:
    """What is done in ten seconds in which nothing happens but that clock and ages tick."""
    async with watched(server) as (app, link):
        await asyncio.sleep(3)
        link.asked.clear()
        paints, begun = app.paints, psutil.Process().cpu_times()
        await asyncio.sleep(10)
        ended = psutil.Process().cpu_times()
        lists = [op for op in link.asked if op != "ping"]
        share = (ended.user + ended.system - begun.user - begun.system) / 10 * 100
        memory = psutil.Process().memory_info().rss / 2**20
        return [
            Figure("idle: requests in 10 s but for pings", len(lists), 1, ""),
            Figure("idle: drawings in 10 s: the ticks of the clock", app.paints - paints, 60, ""),
            Figure("idle: of one core", share, 10, "%"),
            Figure(f"memory with {TASKS:,} matching tasks", memory, 200, "MB"),
        ]


async def measured(directory: Path) -> tuple[list[Figure], float]:
    """Return the figures, and how long a paint took before and after them."""
    before = await bare_paint()
    figures = await _figures(directory)
    return figures, (before + await bare_paint()) / 2


async def _figures(directory: Path) -> list[Figure]:
    with running_server(directory, f"sqlite:///{directory / 'treadle.db'}") as server:
        async with Client(server.url, server.token) as client:
            for _ in range(TASKS // 5000):
                await client.submit_many([rotate.bind(angle=angle) for angle in range(5000)])
            return [
                await first_paint(server),
                await key_to_paint(),
                await commit_to_screen(server, client),
                *await idle(server),
            ]


def main() -> None:
    """Measure, print, and end with 1 when a bar is missed."""
    with TemporaryDirectory(prefix="treadle-") as directory:
        figures, paint = asyncio.run(measured(Path(directory)))
    print(*(figure.told(paint) for figure in figures), sep="\n")
    print(f"a paint of the same screen without data: {paint:.1f} ms")
    busy = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"load of {os.cpu_count()} cores in the last 1, 5 and 15 minutes: {busy}; other work makes the figures worse")
    sys.exit(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    main()

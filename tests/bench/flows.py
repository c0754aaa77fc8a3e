"""Measures a flow as wide as one may be: `python -m tests.bench.flows --help`.

One task is waited for by all others but the last, which waits for these. The flow is submitted and run by a worker
process; then another one is submitted and cancelled. Beside it somebody submits a task of another queue twenty times a
second: what holds the server up shows in the longest time that an answer took.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.bench import fans
from tests.bench.endings import end
from tests.bench.report import show
from tests.bench.site import Site, databases, open_site
from treadle import Flow

LONGEST_ANSWER = 5.0
"""Seconds that somebody else's task may take to be put in meanwhile."""

PAUSE = 0.05


def fan(width: int) -> tuple[Flow, Any]:
    """Return a flow of so many tasks between the first and the last, and the last's node."""
    flow = Flow("fan")
    seed = flow.add(fans.first)
    return flow, flow.add(fans.last, [flow.add(fans.beside, n, seed) for n in range(width)])


class Beside:
    """Somebody who submits a task of another queue now and then; `slowest` is how long the longest answer took."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.slowest = 0.0
        self.most_bytes = 0

    async def run(self) -> None:
        """Go on until it is cancelled."""
        server = self._site.process
        while True:
            began = time.monotonic()
            await self._site.client.submit(end.bind(n=0))
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.most_bytes = max(self.most_bytes, server.memory_info().rss)
            await asyncio.sleep(PAUSE)


@asynccontextmanager
async def phase(name: str, site: Site, rows: list[dict[str, Any]]) -> AsyncIterator[None]:
    """Measure what the block does, as one row."""
    beside, began = Beside(site), time.monotonic()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(beside.run())
        yield
        seconds = time.monotonic() - began
        running.cancel()
    rows.append(
        {"phase": name, "seconds": seconds, "longest answer s": beside.slowest, "server MB": beside.most_bytes / 1e6}
    )


async def measure(kind: str, width: int) -> bool:
    """Measure once, print what was found, and return whether all ran, all were cancelled, and nobody waited long."""
    rows: list[dict[str, Any]] = []
    with databases(kind) as database:
        async with open_site(database) as site:
            for one in (end, fans.first, fans.beside, fans.last):
                await site.client.register(one)
            flow, last = fan(width)
            async with phase("submit", site, rows):
                await flow.submit(site.client)
            async with phase("run", site, rows):
                await site.open_workers("tests.bench.fans", 1, concurrency=100)
                total = await flow.result(last)
            other, _ = fan(width)
            await other.submit(site.client)
            async with phase("cancel", site, rows):
                await other.cancel()
                while (await other.get()).progress < 1:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(PAUSE)
    slowest = max(row["longest answer s"] for row in rows)
    is_right = total == sum(range(width)) + width
    verdict = {"tasks": width + 2, "longest answer s": slowest, "bound": LONGEST_ANSWER, "sum is right": is_right}
    show(f"A flow of {width + 2:,} tasks on {kind}", rows, verdict)
    return is_right and slowest <= LONGEST_ANSWER


def main() -> int:
    """Read the sizes and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--width", type=int, default=99_998, help="tasks between the first and the last")
    given = parser.parse_args()
    return 0 if asyncio.run(measure(given.database, given.width)) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Measures what those who work notice of the removal of ended tasks: `python -m tests.bench.pruning --help`.

A server with very many completed tasks is given some hundred a second, each through submit, claim, start and end: first
without, then while the completed ones are removed, then without again. A task's latency is from before its submit to
the push of its result; it is taken from when the task was to be submitted, so that a stall counts for all that it
delays.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.bench.endings import end
from tests.bench.report import show
from tests.bench.site import Site, databases, open_site
from tests.bench.targets import MOST_AT_ONCE
from treadle import Client

BOUND = 2.0
"""How many times longer 99 of 100 tasks may take while others are removed."""


@dataclass
class Latencies:
    """How long tasks took, in seconds, while the block was open."""

    found: list[float] = field(default_factory=list)

    def row(self, name: str, seconds: float) -> dict[str, Any]:
        """Return them as a row of the table."""
        ordered = sorted(self.found)
        at = {share: ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000 for share in (0.5, 0.99)}
        return {
            "phase": name,
            "seconds": seconds,
            "tasks/s": len(ordered) / seconds,
            "p50 ms": at[0.5],
            "p99 ms": at[0.99],
            "max ms": ordered[-1] * 1000,
        }


async def fill(site: Site, count: int) -> None:
    """Let so many tasks run and complete."""
    await site.client.register(end)
    await site.open_workers("tests.bench.endings", 1, concurrency=100)
    for start in range(0, count, MOST_AT_ONCE):
        await site.client.submit_many([end.bind(n=n) for n in range(start, min(count, start + MOST_AT_ONCE))])
    await site.ended(count)


@asynccontextmanager
async def passing(client: Client, rate: float) -> AsyncIterator[Latencies]:
    """Have tasks pass at the rate during the block."""
    taken = Latencies()
    stopping = asyncio.Event()

    async def one(n: int, due: float) -> None:
        handle = await client.submit(end.bind(n=n), wait=True)
        await handle.result(timeout=60)
        taken.found.append(time.monotonic() - due)

    async def send() -> None:
        async with asyncio.TaskGroup() as group:
            began, n = time.monotonic(), 0
            while not stopping.is_set():
                due = began + n / rate
                if (early := due - time.monotonic()) > 0:
                    await asyncio.sleep(early)
                group.create_task(one(n, due))
                n += 1

    async with asyncio.TaskGroup() as group:
        group.create_task(send())
        yield taken
        stopping.set()


async def quiet(client: Client, rate: float, seconds: float) -> dict[str, Any]:
    """Measure for so long without a removal."""
    async with passing(client, rate) as taken:
        await asyncio.sleep(seconds)
    return taken.row("quiet", seconds)


async def pruned(client: Client, rate: float, drained_at: float) -> tuple[dict[str, Any], int]:
    """Measure while everything that completed before `drained_at` is removed; return also how many tasks went."""
    removed, done, began = 0, False, time.monotonic()
    async with passing(client, rate) as taken:
        while not done:
            part = await client.prune(older_than=time.monotonic() - drained_at, status=["completed"])
            removed, done = removed + part.tasks, part.done
        seconds = time.monotonic() - began
    return taken.row("removing", seconds) | {"removed/s": removed / seconds}, removed


async def measure(kind: str, ended: int, rate: float, seconds: float) -> bool:
    """Measure once, print what was found, and return whether the removal was hardly noticed, and complete."""
    with databases(kind) as database:
        async with open_site(database) as site:
            await fill(site, ended)
            drained_at = time.monotonic()
            await quiet(site.client, rate, 3)
            before = await quiet(site.client, rate, seconds)
            during, removed = await pruned(site.client, rate, drained_at)
            after = await quiet(site.client, rate, seconds)
    rows = [{"removed/s": 0.0} | row for row in (before, during, after)]
    longer = during["p99 ms"] / min(before["p99 ms"], after["p99 ms"])
    verdict = {"p99 times longer": longer, "bound": BOUND, "ended": ended, "removed": removed}
    show(f"Removing ended tasks on {kind}, beside {rate:g} tasks a second", rows, verdict)
    return longer <= BOUND and removed == ended


def main() -> int:
    """Read the sizes and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--ended", type=int, default=1_000_000, help="completed tasks that are removed")
    parser.add_argument("--rate", type=float, default=500, help="tasks a second that pass")
    parser.add_argument("--seconds", type=float, default=20, help="length of each measurement without a removal")
    given = parser.parse_args()
    return 0 if asyncio.run(measure(given.database, given.ended, given.rate, given.seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())

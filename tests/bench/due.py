"""Measures how late a task starts that falls due while everything is idle: `python -m tests.bench.due --help`."""

import argparse
import asyncio
import sys
from statistics import median

from tests.bench.report import show
from tests.bench.site import Site, databases, open_site
from tests.bench.tenants import shared
from treadle import Options

BOUND = 0.1
"""Seconds within which a due task is to have been started (E1)."""


async def lateness(site: Site, delay: float) -> float:
    """Submit one task that is due in `delay` seconds, and return how many seconds after its time it was started."""
    handle = await site.client.submit(shared.bind(n=0, options=Options(delay=delay)))
    done = await handle.wait()
    assert done.started_at is not None
    return (done.started_at - done.scheduled_at).total_seconds()


async def measure(kind: str, count: int) -> bool:
    """Run the tasks one after another, print how late they were, and return whether all were in time."""
    with databases(kind) as database:
        async with open_site(database) as site:
            await site.open_workers("tests.bench.tenants", 1, concurrency=1)
            late = [await lateness(site, 0.3 + 0.037 * n) for n in range(count)]
    row = {"tasks": count, "median ms": median(late) * 1000, "worst ms": max(late) * 1000}
    show(f"Due tasks on {kind}: one worker, idle server", [row], {"bound ms": BOUND * 1000})
    return max(late) <= BOUND


def main() -> None:
    """Read the sizes and measure; the exit code is 1 when a task was later than the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--count", type=int, default=20, help="tasks, one after another")
    given = parser.parse_args()
    sys.exit(not asyncio.run(measure(given.database, given.count)))


if __name__ == "__main__":
    main()

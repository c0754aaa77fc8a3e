"""Ten thousand tasks that sleep: what they cost the server while they do, and how late they wake.

`python -m tests.bench.sleepers [--tasks 10000] [--over SECONDS] [--awaited] [--database sqlite|postgres]` prints it;
nothing holds it to a number. All wake at the same moment, or `--over` so many seconds one after the other. Server and
worker are processes of their own, as they are where it matters. With `--awaited` this process waits for each of the
results, which takes its share of the two processors; else nobody does, as of tasks that sleep for a day.
"""

import argparse
import asyncio
import time
from typing import Any

from tests.bench.naps import sleeper
from tests.bench.report import show
from tests.bench.site import Site, databases, open_site
from treadle import Client

LENGTH = 20.0
"""Seconds from the first submit until all are to wake."""

LOOK = 3.0
"""Seconds for which the server is watched while all sleep."""


async def measure(kind: str, tasks: int, over: float, *, awaited: bool) -> None:
    """Put them to sleep, see what they cost, and see them wake."""
    with databases(kind) as database:
        async with open_site(database) as site:
            await site.client.register(sleeper)
            await site.open_workers("tests.bench.naps", 1, concurrency=200)
            before = site.process.memory_info().rss
            at = time.time() + LENGTH
            moments = [at + over * n / tasks for n in range(tasks)]
            handles = await site.client.submit_many([sleeper.bind(at=moment) for moment in moments], wait=awaited)
            asleep_after = await _all_are(site.client, "scheduled", tasks) - (at - LENGTH)
            grown = site.process.memory_info().rss - before
            found = {"asleep after s": asleep_after, "MB before": before / 1e6, "MB more": grown / 1e6}
            found |= await _while_asleep(site, at)
            if not awaited:
                await _all_are(site.client, "completed", tasks)
            late = sorted([await handle.result() for handle in handles])
    places = {"p50 s": tasks // 2, "p99 s": tasks * 99 // 100, "worst s": tasks - 1}
    show(f"{tasks:,} tasks that sleep on {kind}", [found], {name: late[place] for name, place in places.items()})


async def _while_asleep(site: Site, at: float) -> dict[str, Any]:
    """Return the processor time that the server takes while all sleep."""
    used = site.cpu_seconds()
    seconds = max(0.0, min(LOOK, at - time.time() - 1.0))
    await asyncio.sleep(seconds)
    return {"processor s": site.cpu_seconds() - used, "watched s": seconds}


async def _all_are(client: Client, status: str, tasks: int) -> float:
    while (await client.stats()).counts.get(status, 0) < tasks:  # noqa: ASYNC110 - it is asked as anybody would
        await asyncio.sleep(0.1)
    return time.time()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--over", type=float, default=0.0, help="seconds from the first that wakes to the last")
    parser.add_argument("--awaited", action="store_true", help="wait for each result from before they wake on")
    given = parser.parse_args()
    asyncio.run(measure(given.database, given.tasks, given.over, awaited=given.awaited))

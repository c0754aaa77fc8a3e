"""Measures how soon small rooms are served beside a crowded one: `python -m tests.bench.fairness --help`.

One room has very many tasks, ten others have ten each, and the crowded one came first. It is run twice: with one job
that all rooms share, registered `fair: room`, and with a job of its own in each room.
"""

import argparse
import asyncio
import sys
from typing import Any

from tests.bench.report import show
from tests.bench.site import Site, databases, open_site
from tests.bench.targets import MOST_AT_ONCE
from tests.bench.tenants import OWN, ROOMS, shared
from treadle import Client, Task
from treadle.wire.tasks import TaskItem

BOUND = 1.0
"""Seconds from the worker's first start within which the small rooms are to be through."""


async def fill(site: Site, jobs: dict[str, Task[[int], int]], crowd: int, each: int) -> str:
    """Submit every room's tasks, the crowded room's first, and return the first one's id; nothing serves them yet."""
    ids: list[str] = []
    for job in set(jobs.values()):
        await site.client.register(job)
    for room in ROOMS:
        count = crowd if room == ROOMS[0] else each
        async with Client(site.server.url, site.server.token, room=room) as client:
            for start in range(0, count, MOST_AT_ONCE):
                bounds = [jobs[room].bind(n=n) for n in range(start, min(count, start + MOST_AT_ONCE))]
                ids += [handle.id for handle in await client.submit_many(bounds)]
    return ids[0]


async def small_rooms_done(client: Client, each: int) -> list[TaskItem]:
    """Wait until the small rooms are through, and return their tasks."""
    done: list[TaskItem] = []
    for room in ROOMS[1:]:
        items: list[TaskItem] = []
        while len(items) < each:
            await asyncio.sleep(0.02)
            items = (await client.list(room=room, status="completed", limit=500)).items
        done += items
    return done


async def serve(database: str, name: str, crowd: int, each: int) -> dict[str, Any]:
    """Fill the rooms, let one worker come, and return how long the small rooms took."""
    jobs = dict.fromkeys(ROOMS, shared) if name == "shared job" else OWN
    async with open_site(database) as site:
        first = await fill(site, jobs, crowd, each)
        await site.open_workers("tests.bench.tenants", 1, concurrency=8)
        done = await small_rooms_done(site.client, each)
        crowded = (await site.client.stats()).counts.get("completed", 0) - len(done)
        done.append(await site.client.get(first))
    began = min(item.started_at for item in done if item.started_at is not None)
    ended = max(item.completed_at for item in done[:-1] if item.completed_at is not None)
    return {
        "rooms": name,
        "crowd": crowd,
        "others": len(done) - 1,
        "seconds": (ended - began).total_seconds(),
        "of the crowd meanwhile": crowded,
    }


async def measure(kind: str, crowd: int, each: int) -> bool:
    """Run both variants, print what they took, and return whether both were within the bound."""
    with databases(kind) as database:
        rows = [await serve(database, name, crowd, each) for name in ("shared job", "job of its own")]
    slowest = max(row["seconds"] for row in rows)
    show(f"Fairness between rooms on {kind}: one worker", rows, {"slowest": slowest, "bound": BOUND})
    return slowest <= BOUND


def main() -> None:
    """Read the sizes and measure; the exit code is 1 when the bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--crowd", type=int, default=100_000, help="tasks of the crowded room")
    parser.add_argument("--each", type=int, default=10, help="tasks of each other room")
    given = parser.parse_args()
    sys.exit(not asyncio.run(measure(given.database, given.crowd, given.each)))


if __name__ == "__main__":
    main()

"""Measures what targets cost a claim: `python -m tests.bench.targets --help`.

The same tasks are run with a target each and without, in turn. Every task checks that it is alone in its target and
that the one before it has run; a single violation fails the program.
"""

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.bench.report import show
from tests.bench.site import databases, open_site
from tests.bench.visits import visit
from treadle import Client, Options, TaskHandle
from treadle.client.bound import Bound

MOST_AT_ONCE = 10_000
BOUND = 1.5
"""How many times slower the claims may be with targets than without."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is run."""

    targets: int
    tasks: int
    workers: int
    concurrency: int
    rounds: int


def visits(sizes: Sizes, *, targeted: bool) -> list[Bound[None]]:
    """Return the tasks, target after target in each row; without targets each has a place for itself."""
    if not targeted:
        return [visit.bind(place=f"free-{i}", n=0) for i in range(sizes.targets * sizes.tasks)]
    return [
        visit.bind(place=f"target-{t}", n=n, options=Options(target=f"target-{t}"))
        for n in range(sizes.tasks)
        for t in range(sizes.targets)
    ]


async def submit(client: Client, bounds: list[Bound[None]]) -> list[TaskHandle[None]]:
    """Submit them in their order to a queue that is paused, and return their handles."""
    await client.register(visit)
    await client.pause_queue(visit.full_name)
    handles: list[TaskHandle[None]] = []
    for start in range(0, len(bounds), MOST_AT_ONCE):
        handles += await client.submit_many(bounds[start : start + MOST_AT_ONCE])
    return handles


async def drain(database: str, sizes: Sizes, *, targeted: bool) -> dict[str, Any]:
    """Run everything once on an empty database, and return what it took."""
    bounds = visits(sizes, targeted=targeted)
    async with open_site(database) as site:
        began = time.monotonic()
        await submit(site.client, bounds)
        submitted = time.monotonic() - began
        await site.open_workers("tests.bench.visits", sizes.workers, concurrency=sizes.concurrency)
        began, used = time.monotonic(), site.cpu_seconds()
        await site.client.resume_queue(visit.full_name)
        over = await site.ended(len(bounds))
        took, used = time.monotonic() - began, site.cpu_seconds() - used
    return {
        "targets": sizes.targets if targeted else 0,
        "tasks": len(bounds),
        "submit s": submitted,
        "drain s": took,
        "tasks/s": len(bounds) / took,
        "server CPU ms/task": used / len(bounds) * 1000,
        "violations": over["failed"] + over["cancelled"],
    }


async def measure(kind: str, sizes: Sizes) -> bool:
    """Run all rounds, print what they took, and return whether the targets were kept and cheap enough."""
    rows = []
    with databases(kind) as database:
        for _ in range(sizes.rounds):
            for targeted in (False, True):
                rows.append(await drain(database, sizes, targeted=targeted))
                print(rows[-1], file=sys.stderr)
    free, targeted_ones = ([row["tasks/s"] for row in rows if bool(row["targets"]) is one] for one in (False, True))
    slower = median(free) / median(targeted_ones)
    violations = sum(row["violations"] for row in rows)
    show(
        f"Targets on {kind}: {sizes.workers} workers",
        rows,
        {"times slower": slower, "bound": BOUND, "violations": violations},
    )
    return violations == 0 and slower <= BOUND


def main() -> None:
    """Read the sizes and measure; the exit code is 1 when a target was shared or the bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--targets", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=10, help="tasks of each target")
    parser.add_argument("--workers", type=int, default=20, help="worker processes")
    parser.add_argument("--concurrency", type=int, default=8, help="tasks that each worker runs at once")
    parser.add_argument("--rounds", type=int, default=3)
    given = vars(parser.parse_args())
    kind = given.pop("database")
    sys.exit(not asyncio.run(measure(kind, Sizes(**given))))


if __name__ == "__main__":
    main()

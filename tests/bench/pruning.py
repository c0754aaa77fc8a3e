"""Measures what those who work notice of the removal of ended tasks: `python -m tests.bench.pruning --help`.

A server with very many completed tasks is given some hundred a second, each through submit, claim, start and end. Some
seconds in which the completed ones are removed and as many in which they are not follow each other in turn, so that
what else the machine does disturbs both alike. A task's latency is from when it was to be submitted to the push of its
result, so that a stall counts for all that it delays.
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

TURN_SECONDS = 5.0
"""A request to remove works for so long; as long are the pauses."""

WARM_SECONDS = 3.0


@dataclass
class Phase:
    """Times that are measured together, and how long tasks took that were due in them, in seconds."""

    name: str
    seconds: float = 0.0
    found: list[float] = field(default_factory=list)

    def row(self, removed: int) -> dict[str, Any]:
        """Return the phase as a row of the table."""
        ordered = sorted(self.found)
        at = {share: ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000 for share in (0.5, 0.99)}
        return {
            "phase": self.name,
            "seconds": self.seconds,
            "removed/s": removed / self.seconds,
            "tasks/s": len(ordered) / self.seconds,
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


class Passing:
    """Tasks that pass at a rate; each is noted in the phase in which it was due."""

    def __init__(self, client: Client, rate: float) -> None:
        self.phase = Phase("before")
        self._client = client
        self._rate = rate
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Submit until `stop`, and wait for what is under way."""
        async with asyncio.TaskGroup() as group:
            began, n = time.monotonic(), 0
            while not self._stopping.is_set():
                due = began + n / self._rate
                if (early := due - time.monotonic()) > 0:
                    await asyncio.sleep(early)
                group.create_task(self._one(n, due, self.phase))
                n += 1

    async def _one(self, n: int, due: float, phase: Phase) -> None:
        handle = await self._client.submit(end.bind(n=n), wait=True)
        await handle.result(timeout=60)
        phase.found.append(time.monotonic() - due)

    @asynccontextmanager
    async def within(self, phase: Phase) -> AsyncIterator[None]:
        """Note what is due in the block in this phase."""
        before, self.phase, began = self.phase, phase, time.monotonic()
        yield
        phase.seconds += time.monotonic() - began
        self.phase = before

    def stop(self) -> None:
        """Submit no more."""
        self._stopping.set()


async def take_turns(client: Client, rate: float, drained_at: float) -> tuple[Phase, Phase, int]:
    """Remove what completed before `drained_at`, with pauses; return both phases and how many tasks went."""
    passing, quiet, removing = Passing(client, rate), Phase("quiet"), Phase("removing")
    removed, done = 0, False
    async with asyncio.TaskGroup() as group:
        group.create_task(passing.run())
        await asyncio.sleep(WARM_SECONDS)
        while not done:
            async with passing.within(quiet):
                await asyncio.sleep(TURN_SECONDS)
            async with passing.within(removing):
                part = await client.prune(older_than=time.monotonic() - drained_at, status=["completed"])
            removed, done = removed + part.tasks, part.done
        passing.stop()
    return quiet, removing, removed


async def measure(kind: str, ended: int, rate: float) -> bool:
    """Measure once, print what was found, and return whether the removal was hardly noticed, and complete."""
    with databases(kind) as database:
        async with open_site(database) as site:
            await fill(site, ended)
            drained_at = time.monotonic() + 1
            await asyncio.sleep(2)
            quiet, removing, removed = await take_turns(site.client, rate, drained_at)
    rows = [quiet.row(0), removing.row(removed)]
    longer = rows[1]["p99 ms"] / rows[0]["p99 ms"]
    verdict = {"p99 times longer": longer, "bound": BOUND, "ended": ended, "removed": removed}
    show(f"Removing ended tasks on {kind}, beside {rate:g} tasks a second", rows, verdict)
    return longer <= BOUND and removed == ended


def main() -> int:
    """Read the sizes and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--ended", type=int, default=1_000_000, help="completed tasks that are removed")
    parser.add_argument("--rate", type=float, default=500, help="tasks a second that pass")
    given = parser.parse_args()
    return 0 if asyncio.run(measure(given.database, given.ended, given.rate)) else 1


if __name__ == "__main__":
    sys.exit(main())

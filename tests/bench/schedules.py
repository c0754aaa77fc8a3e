"""Lets a schedule tick every second while the server is killed: `python -m tests.bench.schedules --help`.

What must hold is read from the database at the end: no tick has two tasks, none is lost but those that came while the
server was down or the task of the last one was open, and of these one late run was made.
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa

from tests.bench.report import show
from tests.bench.site import databases, new_database
from tests.chaos.processes import ServerProcess, WorkerProcess, running_server, stopped_at_the_end
from treadle_server.store.past_runs import past_runs
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import schedule_ticks, tasks

LATE = 0.5
"""Seconds by which a task may be made after its tick when nothing was in its way."""

STARTING = 1.0
"""Seconds that a server may take, once it answers, to find what it has missed."""


@dataclass(frozen=True, slots=True)
class Made:
    """A task that was made for a tick."""

    tick: datetime
    created_at: datetime
    completed_at: datetime | None
    runs_completed: int


@dataclass(frozen=True, slots=True)
class Outage:
    """When the server was killed, and when it answered again."""

    began: datetime
    ended: datetime

    def excuses(self, made: Made) -> bool:
        """Return whether a task was late because of it."""
        return self.began - timedelta(seconds=STARTING) <= made.tick <= self.ended + timedelta(seconds=STARTING)


def now() -> datetime:
    """Return the time of day, as the server has it too."""
    return datetime.now(UTC)


async def ordeal(server: ServerProcess, seconds: float, kills: int, chance: random.Random) -> list[Outage]:
    """Kill the server so many times within the seconds, and start it again after up to three."""
    outages = []
    ends = time.monotonic() + seconds
    for left in range(kills, 0, -1):
        await asyncio.sleep(max(0.0, (ends - time.monotonic()) / (left + 1) * chance.uniform(0.7, 1.3)))
        began = now()
        server.kill()
        await asyncio.sleep(chance.uniform(0, 3))
        await asyncio.to_thread(server.start)
        outages.append(Outage(began, now()))
    await asyncio.sleep(max(0.0, ends - time.monotonic()))
    return outages


async def made_tasks(database_url: str) -> list[Made]:
    """Return what was made for the ticks, in their order."""
    runs = past_runs()
    completed = (
        sa.select(sa.func.count()).where(runs.c.task_seq == tasks.c.seq, runs.c.status == "completed").scalar_subquery()
    )
    statement = (
        sa.select(schedule_ticks.c.tick, tasks.c.created_at, tasks.c.completed_at, completed)
        .join_from(schedule_ticks, tasks, tasks.c.seq == schedule_ticks.c.task_seq)
        .order_by(schedule_ticks.c.tick)
    )
    store = SqlStore(database_url)
    await store.open()
    try:
        async with store.read() as connection:
            return [Made(*row) for row in await connection.execute(statement)]
    finally:
        await store.close()


def judged(made: Sequence[Made], outages: Sequence[Outage]) -> tuple[dict[str, Any], list[str]]:
    """Return the figures, and what went wrong."""
    wrong = [f"tick {one.tick} was completed {one.runs_completed} times" for one in made if one.runs_completed > 1]
    punctual: list[float] = []
    missed = 0
    for last, one in pairwise(made):
        # What comes next is the first tick behind the moment at which the last task was made: none is passed over.
        steps = (last.created_at - last.tick) // timedelta(seconds=1) + 1
        missed += steps - 1
        if one.tick != last.tick + timedelta(seconds=steps):
            wrong.append(f"behind tick {last.tick}, made at {last.created_at}, came {one.tick}")
        late = (one.created_at - one.tick).total_seconds()
        was_open = last.completed_at is None or last.completed_at > one.tick
        if not was_open and not any(outage.excuses(one) for outage in outages):
            punctual.append(late)
            if late > LATE:
                wrong.append(f"the task of tick {one.tick} was made {late:.3f} s late")
    figures = {
        "tasks": len(made),
        "doubled": len(made) - len({one.tick for one in made}),
        "kills": len(outages),
        "s down": sum((outage.ended - outage.began).total_seconds() for outage in outages),
        "ticks in late runs": missed,
        "median ms late": median(punctual) * 1000 if punctual else 0.0,
        "worst ms late": max(punctual, default=0.0) * 1000,
    }
    return figures, wrong


async def measure(kind: str, seconds: float, kills: int, seed: int) -> bool:
    """Run it, print the figures and what went wrong, and return whether nothing did."""
    with databases(kind) as database, ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="treadle-bench-")))
        url = await new_database(database, directory)
        server = stack.enter_context(running_server(directory, url))
        worker = WorkerProcess(server, "tests.bench.ticks", concurrency=2)
        worker.start()
        stack.enter_context(stopped_at_the_end(worker))
        outages = await ordeal(server, seconds, kills, random.Random(seed))
        server.stop()
        made = await made_tasks(url)
    figures, wrong = judged(made, outages)
    show(f"A schedule every second on {kind}, {seconds:g} s, the server killed", [figures], {"wrong": len(wrong)})
    for one in wrong:
        print(one)
    expected = seconds - figures["s down"] - 5 * kills - 10
    if len(made) < expected:
        print(f"only {len(made)} tasks were made, at least {expected:.0f} were expected")
    return not wrong and len(made) >= expected


def main() -> None:
    """Read the sizes and run; the exit code is 1 when a tick was lost, doubled or late without a reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sys.exit(not asyncio.run(measure(given.database, given.seconds, given.kills, given.seed)))


if __name__ == "__main__":
    main()

"""Totals over all jobs and workers."""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import LEASED
from treadle_server.store.read import counts, jobs
from treadle_server.store.read.filters import status_is
from treadle_server.store.tables import tasks, workers


@dataclass(frozen=True, slots=True)
class Totals:
    """How much there is of everything."""

    counts: dict[str, int]
    jobs: int
    workers: dict[str, int]
    """By state."""
    slots: int
    """The capacity of the workers that are not lost."""
    used: int
    """The weight of what is claimed or running."""


async def totals(connection: AsyncConnection) -> Totals:
    """Return the totals at this moment."""
    by_state = select(workers.c.state, func.count(), func.sum(workers.c.concurrency)).group_by(workers.c.state)
    states = {state: (n, int(slots)) for state, n, slots in await connection.execute(by_state)}
    used = select(func.coalesce(func.sum(tasks.c.weight), 0)).where(status_is(*LEASED))
    return Totals(
        counts=await counts.totals(connection),
        jobs=await jobs.count(connection),
        workers={state: n for state, (n, _) in states.items()},
        slots=sum(slots for state, (_, slots) in states.items() if state != "lost"),
        used=int((await connection.execute(used)).scalar_one()),
    )

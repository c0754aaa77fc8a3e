"""Totals over all jobs and workers."""

from collections import Counter
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import LEASED
from treadle_server.domain.visibility import Visibility
from treadle_server.store.read import counts, jobs
from treadle_server.store.read.visibility import within, workers_within
from treadle_server.store.tables import status_in, tasks, workers

MOST_JOBS = 10_000
"""Most jobs whose tasks are counted for a user who can't read all rooms."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals."""

    counts: dict[str, int]
    jobs: int
    workers: dict[str, int]
    """By state."""
    slots: int
    """The capacity of the workers that are not lost."""
    used: int
    """The total weight of the claimed and running tasks."""


async def totals(connection: AsyncConnection, visibility: Visibility | None = None) -> Totals:
    """Return the current totals within `visibility`.

    Tasks of visible jobs that may have tasks in other rooms are not counted.
    """
    by_state = select(workers.c.state, func.count(), func.sum(workers.c.concurrency)).where(workers_within(visibility))
    rows = await connection.execute(by_state.group_by(workers.c.state))
    states = {state: (n, int(slots)) for state, n, slots in rows}
    used = select(func.coalesce(func.sum(tasks.c.weight), 0)).where(
        status_in(*LEASED), within(visibility, tasks.c.room)
    )
    by_status, registered = await _of_jobs(connection, visibility)
    return Totals(
        counts=by_status,
        jobs=registered,
        workers={state: n for state, (n, _) in states.items()},
        slots=sum(slots for state, (_, slots) in states.items() if state != "lost"),
        used=int((await connection.execute(used)).scalar_one()),
    )


async def _of_jobs(connection: AsyncConnection, visibility: Visibility | None) -> tuple[dict[str, int], int]:
    """Return the counts of tasks by status, and the number of jobs."""
    if visibility is None:
        return await counts.totals(connection), await jobs.count(connection)
    found, registered = await jobs.page(connection, visibility=visibility, limit=MOST_JOBS)
    told = [job.num for job in found if visibility.admits(job.room)]
    by_status: Counter[str] = Counter()
    for of_job in (await counts.by_job(connection, told)).values():
        by_status.update(of_job)
    return dict(by_status), registered

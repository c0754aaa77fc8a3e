"""The counts of each job's tasks by status, and of all that ever reached each terminal status, at one moment."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import CompoundSelect, func, literal, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.names import JobName
from treadle.wire.status import TERMINAL
from treadle_server.store.read.counts import counted
from treadle_server.store.tables import jobs, lanes, past_outcomes


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Both counts by job number: tasks now in each status, and tasks that ever reached each terminal one."""

    standing: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    ended: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


@cache
def _by_job(dialect: str) -> CompoundSelect[Any]:
    """Return a single statement, so that a task that is removed meanwhile is counted once."""
    kept = counted(dialect)
    standing = select(lanes.c.job_num, kept.c.status, literal(0), func.sum(kept.c.n))
    past = select(lanes.c.job_num, past_outcomes.c.status, literal(1), func.sum(past_outcomes.c.n))
    return union_all(
        standing.join_from(kept, lanes, lanes.c.id == kept.c.lane).group_by(lanes.c.job_num, kept.c.status),
        past.join_from(past_outcomes, lanes, lanes.c.id == past_outcomes.c.lane).group_by(
            lanes.c.job_num, past_outcomes.c.status
        ),
    )


async def by_job(connection: AsyncConnection) -> Outcomes:
    """Return the counts of all jobs."""
    found = Outcomes()
    for job_num, status, is_past, n in await connection.execute(_by_job(connection.dialect.name)):
        if not is_past:
            found.standing[job_num][status] += int(n)
        if status in TERMINAL:
            found.ended[job_num][status] += int(n)
    return found


async def first_jobs(connection: AsyncConnection, most: int) -> dict[int, str]:
    """Return the full names of the `most` oldest jobs, deleted ones too, by number."""
    statement = select(jobs.c.num, jobs.c.room, jobs.c.category, jobs.c.name).order_by(jobs.c.num).limit(most)
    return {num: str(JobName(*name)) for num, *name in await connection.execute(statement)}

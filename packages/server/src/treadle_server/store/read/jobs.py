"""Jobs with the state of their queues and the workers that serve them."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from functools import cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    CompoundSelect,
    bindparam,
    exists,
    false,
    func,
    literal_column,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.names import INTERNAL, InvalidJobName, parse_job_name, visible_from
from treadle.wire.status import TERMINAL, WAITING
from treadle_server.domain.jobs import JOB_FIELDS, Job
from treadle_server.domain.visibility import BLIND, Visibility
from treadle_server.errors import JobNotFound, no_job
from treadle_server.store.bound_lists import is_one_of, is_same
from treadle_server.store.read import counts, failures
from treadle_server.store.read.visibility import jobs_within, reads, seen_from
from treadle_server.store.tables import jobs, lane_counts, lanes, schedules, tasks, worker_jobs, workers

MOST_NEAR = 100
"""Most jobs among which one with a similar name is looked for."""

LONGEST_TYPED = 60
"""Most characters of a name for which that is done: for the oddest names it takes 35 ms, with 200 characters 350."""

MOST_TYPED = 2
"""Most characters by which a similar name is longer or shorter."""

MOST_POOLS = 100
"""Most pools of a job that are reported."""

_COLUMNS = [jobs.c[name] for name in JOB_FIELDS]


@dataclass(slots=True)
class JobView:
    """A job as it is shown."""

    job: Job
    counts: dict[str, int] = field(default_factory=dict)
    workers: list[str] = field(default_factory=list)
    slots: int = 0
    oldest_pending_at: datetime | None = None
    oldest_pending_of_pools: dict[str, datetime] = field(default_factory=dict)
    """For the `MOST_POOLS` pools with the longest waits."""
    retrying: int = 0
    """Tasks that failed and wait for a retry."""
    is_counted: bool = True
    """Whether the user may see the counts and states of the job's tasks."""


async def by_name(
    connection: AsyncConnection, full_name: str, *, room: str, visibility: Visibility | None = BLIND
) -> Job:
    """Return the job as seen from `room`.

    Raises `JobNotFound`, also for a deleted job and for one of another room, which names a similar one that may be
    seen with this `visibility`.
    """
    try:
        name = parse_job_name(full_name)
    except InvalidJobName as error:
        near = await _near(connection, full_name, room, visibility)
        raise JobNotFound(f"{error}{'' if near is None else f' (did you mean {near}?)'}") from None
    named = (jobs.c.room == name.room, jobs.c.category == name.category, jobs.c.name == name.name)
    row = (await connection.execute(select(*_COLUMNS).where(*named, jobs.c.deleted_at.is_(None)))).first()
    if row is None or not visible_from(room, name.room):
        raise no_job(full_name, room, await _near(connection, full_name, room, visibility))
    return Job(*row)


async def _near(connection: AsyncConnection, full_name: str, room: str, visibility: Visibility | None) -> str | None:
    """Return the full name of a visible job whose own name is similar, or the same; None if there is none."""
    *where, wanted = full_name.split(":", 2)
    if visibility == BLIND or not 0 < len(wanted) <= LONGEST_TYPED:
        return None
    about = func.length(jobs.c.name).between(len(wanted) - MOST_TYPED, len(wanted) + MOST_TYPED)
    is_seen = (reads(visibility, room), jobs_within(visibility), seen_from(room, jobs.c.room))
    statement = select(jobs.c.name, jobs.c.room, jobs.c.category).where(about, *is_seen, jobs.c.deleted_at.is_(None))
    found = (await connection.execute(statement.order_by(jobs.c.name, jobs.c.room).limit(MOST_NEAR))).all()
    names = get_close_matches(wanted, {row.name for row in found}, n=1, cutoff=0.75)
    named = [row for row in found if row.name in names]
    if not named:
        return None
    best = min(named, key=lambda row: (row.room not in (where or [room]), row.category not in where))
    return f"{best.room}:{best.category}:{best.name}"


async def versions(connection: AsyncConnection, nums: Collection[int]) -> dict[int, int]:
    """Return the current version of each of the jobs that exists."""
    statement = select(jobs.c.num, jobs.c.version).where(is_one_of(jobs.c.num, nums), jobs.c.deleted_at.is_(None))
    return {row.num: row.version for row in await connection.execute(statement)}


async def page(
    connection: AsyncConnection,
    *,
    room: str | None = None,
    visibility: Visibility | None = None,
    limit: int,
    offset: int = 0,
) -> tuple[list[Job], int]:
    """Return jobs seen from `room` (None: all) within `visibility`, newest first, and how many there are."""
    seen = (jobs_within(visibility), seen_from(room, jobs.c.room), reads(visibility, room))
    where = (jobs.c.deleted_at.is_(None), *seen)
    statement = select(*_COLUMNS).where(*where).order_by(jobs.c.num.desc()).limit(limit).offset(offset)
    found = [Job(*row) for row in await connection.execute(statement)]
    if not offset and len(found) < limit:
        return found, len(found)
    return found, (await connection.execute(select(func.count()).select_from(jobs).where(*where))).scalar_one()


async def count(connection: AsyncConnection) -> int:
    """Return how many jobs are registered."""
    statement = select(func.count()).select_from(jobs).where(jobs.c.deleted_at.is_(None))
    return (await connection.execute(statement)).scalar_one()


async def view(
    connection: AsyncConnection, found: Sequence[Job], visibility: Visibility | None = None
) -> list[JobView]:
    """Return the jobs with counts, live workers, slots and the due time of the oldest pending task.

    A shared job has tasks of all rooms: its counts are left out for users who can't read its own room.
    """
    views = {job.num: JobView(job, is_counted=visibility is None or visibility.admits(job.room)) for job in found}
    if not views:
        return []
    nums = list(views)
    told = [num for num in nums if views[num].is_counted]
    for num, by_status in (await counts.by_job(connection, told)).items():
        views[num].counts = by_status
    for num, ids in (await _workers(connection, nums)).items():
        views[num].workers = [worker_id for worker_id, _ in ids]
        views[num].slots = sum(slots for _, slots in ids)
    behind = [num for num in nums if not WAITING.isdisjoint(views[num].counts)]
    for num, n in (await failures.retrying(connection, behind)).items():
        views[num].retrying = n
    waiting = [num for num in nums if views[num].counts.get("pending")]
    for num, by_pool in (await _oldest_pending(connection, waiting)).items():
        views[num].oldest_pending_at = min(by_pool.values())
        pools = sorted((at, pool) for pool, at in by_pool.items() if pool)
        views[num].oldest_pending_of_pools = {pool: at for at, pool in pools[:MOST_POOLS]}
    return [views[job.num] for job in found]


_named: BindParameter[int] = bindparam("nums", expanding=True)

_workers_of = (
    select(worker_jobs.c.job_num, workers.c.id, workers.c.concurrency)
    .join_from(worker_jobs, workers, workers.c.id == worker_jobs.c.worker_id)
    .where(worker_jobs.c.job_num.in_(_named), workers.c.state != "lost")
    .order_by(workers.c.id)
)


async def _workers(connection: AsyncConnection, nums: Sequence[int]) -> dict[int, list[tuple[str, int]]]:
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for num, worker_id, slots in await connection.execute(_workers_of, {"nums": nums}):
        found[num].append((worker_id, slots))
    return found


@cache
def _heads(dialect: str) -> CompoundSelect[Any]:
    source = counts.counted(dialect)

    def head(blocked: Any) -> Any:
        first = (
            select(tasks.c.due_at)
            .where(
                literal_column("tasks.status = 'pending'"),
                tasks.c.lane == source.c.lane,
                tasks.c.blocked == blocked,
                tasks.c.priority == source.c.priority,
            )
            .order_by(tasks.c.due_at)
            .limit(1)
            .scalar_subquery()
        )
        return (
            select(lanes.c.job_num, lanes.c.pool, first.label("due_at"))
            .join_from(source, lanes, is_same(lanes.c.id, source.c.lane))
            .where(source.c.status == "pending", source.c.n > 0, counts.is_of_jobs(source.c.lane))
        )

    return union_all(head(false()), head(true()))


async def _oldest_pending(connection: AsyncConnection, nums: Sequence[int]) -> dict[int, dict[str, datetime]]:
    """Return the earliest due time among each job's pending tasks, by pool; "" stands for no pool.

    An index yields the head of each lane and priority.
    """
    found: dict[int, dict[str, datetime]] = defaultdict(dict)
    if not nums:
        return found
    for num, pool, due_at in await connection.execute(_heads(connection.dialect.name), {"nums": nums}):
        if due_at is not None:
            found[num][pool] = min(due_at, found[num].get(pool, due_at))
    return found


async def possible_orphans(connection: AsyncConnection) -> list[int]:
    """Return the active jobs without `retain` that have neither workers nor schedules, nor open tasks as is known.

    The writer checks again before it deletes one: 10,000 that have open tasks held it for 0.3 s in each sweep. The kept
    counts may be a little old, so one that has none any more may be found by the next sweep only.
    """
    waits = (
        select(lane_counts.c.n)
        .join_from(lanes, lane_counts, lanes.c.id == lane_counts.c.lane)
        .where(lanes.c.job_num == jobs.c.num, lane_counts.c.status.not_in(sorted(TERMINAL)), lane_counts.c.n > 0)
    )
    statement = select(jobs.c.num).where(
        jobs.c.deleted_at.is_(None),
        jobs.c.retain.is_(false()),
        jobs.c.room != INTERNAL,
        ~exists(select(worker_jobs.c.job_num).where(worker_jobs.c.job_num == jobs.c.num)),
        ~exists(select(schedules.c.id).where(schedules.c.job_num == jobs.c.num, schedules.c.deleted_at.is_(None))),
        ~exists(waits),
    )
    return list((await connection.execute(statement)).scalars())

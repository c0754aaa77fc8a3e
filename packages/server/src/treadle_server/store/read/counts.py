"""The kept counts: how many tasks stand in which lane, status and priority."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Select, Subquery, bindparam, func, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import Status
from treadle_server.store.tables import count_deltas, lane_counts, lanes


@cache
def counted(dialect: str) -> Subquery:
    """Return a subquery of (lane, status, priority, n).

    On PostgreSQL it adds what writers put into `count_deltas` and no service has folded in yet; one statement sees one
    snapshot, so that a fold in the middle is seen wholly or not at all.
    """
    columns = ("lane", "status", "priority", "n")
    kept = select(*(lane_counts.c[name] for name in columns))
    if dialect != "postgresql":
        return kept.subquery("counted")
    both = union_all(kept, select(*(count_deltas.c[name] for name in columns))).subquery("both")
    return (
        select(both.c.lane, both.c.status, both.c.priority, func.sum(both.c.n).label("n"))
        .group_by(both.c.lane, both.c.status, both.c.priority)
        .having(func.sum(both.c.n) != 0)
        .subquery("counted")
    )


@cache
def _by_job(dialect: str, *, is_named: bool) -> Select[Any]:
    # Built once: that took a third of the time of a list of ten queues.
    source = counted(dialect)
    statement = (
        select(lanes.c.job_num, source.c.status, func.sum(source.c.n))
        .join_from(source, lanes, lanes.c.id == source.c.lane)
        .group_by(lanes.c.job_num, source.c.status)
    )
    return statement.where(lanes.c.job_num.in_(bindparam("nums", expanding=True))) if is_named else statement


async def by_job(connection: AsyncConnection, nums: Iterable[int] | None = None) -> dict[int, dict[str, int]]:
    """Return for each job's number how many of its tasks are in each status; statuses without tasks are left out.

    `nums` names the jobs; None means all.
    """
    statement = _by_job(connection.dialect.name, is_named=nums is not None)
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for job_num, status, n in await connection.execute(statement, {} if nums is None else {"nums": list(nums)}):
        if n > 0:
            counts[job_num][status] = int(n)
    return counts


@cache
def _totals(dialect: str) -> Select[Any]:
    source = counted(dialect)
    return select(source.c.status, func.sum(source.c.n)).group_by(source.c.status)


async def totals(connection: AsyncConnection) -> dict[str, int]:
    """Return how many tasks of all jobs are in each status."""
    rows = await connection.execute(_totals(connection.dialect.name))
    return {status: int(n) for status, n in rows if n > 0}


class InLane(NamedTuple):
    """How many tasks of a lane are in a status."""

    lane: int
    job_num: int
    status: str
    n: int


@cache
def _by_lane(dialect: str, *, is_of_job: bool) -> Select[Any]:
    source = counted(dialect)
    statement = (
        select(lanes.c.id, lanes.c.job_num, source.c.status, func.sum(source.c.n))
        .join_from(source, lanes, lanes.c.id == source.c.lane)
        .where(source.c.status.in_(bindparam("statuses", expanding=True)))
        .group_by(lanes.c.id, lanes.c.job_num, source.c.status)
    )
    return statement.where(lanes.c.job_num == bindparam("num")) if is_of_job else statement


async def by_lane(connection: AsyncConnection, statuses: Collection[Status], job_num: int | None) -> list[InLane]:
    """Return how many tasks of each lane are in each of the statuses, where there are any; of one job, or of all."""
    asked: dict[str, Any] = {"statuses": [str(status) for status in statuses]}
    statement = _by_lane(connection.dialect.name, is_of_job=job_num is not None)
    rows = await connection.execute(statement, asked if job_num is None else {**asked, "num": job_num})
    return [InLane(lane, num, status, int(n)) for lane, num, status, n in rows if n > 0]


@cache
def _in_line(dialect: str, *, is_of_job: bool) -> Select[Any]:
    source = counted(dialect)
    statement = select(source.c.priority, source.c.lane, source.c.n).where(source.c.status == str(Status.PENDING))
    if not is_of_job:
        return statement
    return statement.join(lanes, lanes.c.id == source.c.lane).where(lanes.c.job_num == bindparam("num"))


async def in_line(connection: AsyncConnection, job_num: int | None) -> dict[int, dict[int, int]]:
    """Return for each priority how many tasks are in line in each lane, where there are any; of one job, or of all."""
    statement = _in_line(connection.dialect.name, is_of_job=job_num is not None)
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for priority, lane, n in await connection.execute(statement, {} if job_num is None else {"num": job_num}):
        if n > 0:
            found[priority][lane] = int(n)
    return found

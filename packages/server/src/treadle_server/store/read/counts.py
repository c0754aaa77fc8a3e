"""The kept counts of tasks by lane, status and priority."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, Subquery, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import Status
from treadle_server.store.bound_lists import is_among, is_found_by, is_same
from treadle_server.store.tables import lanes
from treadle_server.store.transaction.counts import all_counts


@cache
def counted(dialect: str) -> Subquery:
    """Return a subquery of (lane, status, priority, n).

    On PostgreSQL it adds the rows of `count_deltas` that no service has folded in yet; a statement sees one snapshot,
    so a concurrent fold is seen wholly or not at all.
    """
    both = all_counts(dialect)
    if dialect != "postgresql":
        return both
    return (
        select(both.c.lane, both.c.status, both.c.priority, func.sum(both.c.n).label("n"))
        .group_by(both.c.lane, both.c.status, both.c.priority)
        .having(func.sum(both.c.n) != 0)
        .subquery("counted")
    )


def is_of_jobs(lane: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that a lane is one of the jobs with the numbers `nums`.

    The lanes are looked up first. Where a planner without statistics joined them with the counts instead, it added up
    all counts for each lane: 3 s for a job with 5,000 lanes.
    """
    return is_found_by(lane, select(lanes.c.id).where(is_among(lanes.c.job_num, "nums")))


@cache
def _sums(dialect: str, by: tuple[str, ...], given: frozenset[str]) -> Select[Any]:
    """Return the statement that sums counts by some columns, with the parameters `nums` and `statuses` if `given`.

    Cached, because building it took a third of the time of a list of ten queues.
    """
    kept = counted(dialect)
    columns = [kept.c[name] if name in kept.c else lanes.c[name] for name in by]
    statement = select(*columns, func.sum(kept.c.n)).group_by(*columns)
    if "job_num" in by:
        statement = statement.join_from(kept, lanes, is_same(lanes.c.id, kept.c.lane))
    if "nums" in given:
        statement = statement.where(is_of_jobs(kept.c.lane))
    if "statuses" in given:
        statement = statement.where(kept.c.status.in_(bindparam("statuses", expanding=True)))
    return statement


async def _read(
    connection: AsyncConnection,
    *by: str,
    nums: Iterable[int] | None = None,
    statuses: Iterable[Status] | None = None,
) -> list[tuple[Any, ...]]:
    """Return the non-zero counts of tasks by some columns; of some jobs and statuses, or of all."""
    given: dict[str, list[Any]] = {} if nums is None else {"nums": list(nums)}
    if statuses is not None:
        given["statuses"] = [str(status) for status in statuses]
    rows = await connection.execute(_sums(connection.dialect.name, by, frozenset(given)), given)
    return [(*keys, int(n)) for *keys, n in rows if n > 0]


async def by_job(connection: AsyncConnection, nums: Iterable[int] | None = None) -> dict[int, dict[str, int]]:
    """Return the counts by status of each job, by its number; statuses without tasks are left out.

    `nums` names the jobs; None means all.
    """
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for job_num, status, n in await _read(connection, "job_num", "status", nums=nums):
        counts[job_num][status] = n
    return counts


async def totals(connection: AsyncConnection) -> dict[str, int]:
    """Return the counts by status of all jobs together."""
    return dict(await _read(connection, "status"))


class InLane(NamedTuple):
    """The count of a lane's tasks in a status."""

    lane: int
    job_num: int
    status: str
    n: int


async def by_lane(connection: AsyncConnection, statuses: Collection[Status], job_num: int | None) -> list[InLane]:
    """Return the non-zero counts by lane for these statuses; of one job, or of all."""
    nums = None if job_num is None else [job_num]
    return [InLane(*row) for row in await _read(connection, "lane", "job_num", "status", nums=nums, statuses=statuses)]


async def in_line(connection: AsyncConnection, job_num: int | None) -> dict[int, dict[int, int]]:
    """Return the non-zero counts of pending tasks by priority and lane; of one job, or of all."""
    found: dict[int, dict[int, int]] = defaultdict(dict)
    nums = None if job_num is None else [job_num]
    for priority, lane, n in await _read(connection, "priority", "lane", nums=nums, statuses=[Status.PENDING]):
        found[priority][lane] = n
    return found

"""The kept counts: how many tasks stand in which lane, status and priority."""

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Subquery, func, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.store.tables import count_deltas, lane_counts, lanes


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


async def by_job(connection: AsyncConnection, nums: Iterable[int] | None = None) -> dict[int, dict[str, int]]:
    """Return for each job's number how many of its tasks are in each status; statuses without tasks are left out.

    `nums` names the jobs; None means all.
    """
    source = counted(connection.dialect.name)
    total = func.sum(source.c.n)
    statement = (
        select(lanes.c.job_num, source.c.status, total)
        .join_from(source, lanes, lanes.c.id == source.c.lane)
        .group_by(lanes.c.job_num, source.c.status)
    )
    if nums is not None:
        statement = statement.where(lanes.c.job_num.in_(list(nums)))
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for job_num, status, n in await connection.execute(statement):
        if n > 0:
            counts[job_num][status] = int(n)
    return counts


async def totals(connection: AsyncConnection) -> dict[str, int]:
    """Return how many tasks of all jobs are in each status."""
    source = counted(connection.dialect.name)
    rows = await connection.execute(select(source.c.status, func.sum(source.c.n)).group_by(source.c.status))
    return {status: int(n) for status, n in rows if n > 0}

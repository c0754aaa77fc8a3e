"""Predict when rate limits will let waiting tasks start, by counting the tasks before them, up to a bound."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.domain.limit_starts import Fill, WaitingPosition, tokens_until
from treadle_server.domain.limits import bucket_ids_of
from treadle_server.domain.tasks import Task
from treadle_server.store.bound_lists import NUMBER, BoundList, is_among, is_same
from treadle_server.store.tables import limit_lines, limit_tokens, limits
from treadle_server.store.transaction.limit_lines import OPEN, PARKED

MOST_COUNTED = 20_000
"""Most tasks that are counted for one answer, over all lines of the buckets: about 30 ms."""

# The buckets' lines, and the first tasks of each: how many these are, and where among them the asked tasks are.
_SQLITE = f"""
WITH lines AS MATERIALIZED (
  SELECT l.bucket, l.lane, l.limit_key FROM json_each(:buckets) b CROSS JOIN limit_lines l WHERE l.bucket = b.value
), waiting AS MATERIALIZED (
  SELECT lines.bucket, t.lane, t.priority, t.seq,
         row_number() OVER (PARTITION BY lines.bucket, t.lane ORDER BY t.priority DESC, t.due_at, t.seq) AS nth
    FROM lines CROSS JOIN tasks t
   WHERE t.seq IN (SELECT seq
                     FROM (SELECT * FROM (SELECT seq, priority, due_at FROM tasks i
                                           WHERE i.limit_key = lines.limit_key AND lane = lines.lane
                                             AND {OPEN}
                                           ORDER BY priority DESC, due_at, seq LIMIT :most)
                            UNION ALL
                           SELECT * FROM (SELECT seq, priority, due_at FROM tasks i
                                           WHERE i.limit_key = lines.limit_key AND lane = lines.lane
                                             AND {PARKED}
                                           ORDER BY priority DESC, due_at, seq LIMIT :most))
                    ORDER BY priority DESC, due_at, seq LIMIT :most)
)
SELECT bucket, lane, priority, count(*), NULL FROM waiting GROUP BY bucket, lane, priority
 UNION ALL
SELECT bucket, lane, priority, nth, seq FROM waiting WHERE seq IN (SELECT value FROM json_each(:asked))
"""  # noqa: S608 - made of constants
_POSTGRES = f"""
WITH waiting AS MATERIALIZED (
  SELECT b.bucket, l.lane, t.priority, t.seq,
         row_number() OVER (PARTITION BY b.bucket, l.lane ORDER BY t.priority DESC, t.due_at, t.seq) AS nth
    FROM unnest(:buckets) AS b (bucket)
   CROSS JOIN LATERAL (SELECT lane, limit_key FROM limit_lines WHERE bucket = b.bucket LIMIT {MOST_COUNTED}) l
   CROSS JOIN LATERAL (
         (SELECT priority, due_at, seq FROM tasks i
           WHERE i.limit_key = l.limit_key AND i.lane = l.lane AND {OPEN}
           ORDER BY priority DESC, due_at, seq LIMIT :most)
          UNION ALL
         (SELECT priority, due_at, seq FROM tasks i
           WHERE i.limit_key = l.limit_key AND i.lane = l.lane AND {PARKED}
           ORDER BY priority DESC, due_at, seq LIMIT :most)
          ORDER BY priority DESC, due_at, seq LIMIT :most) t
)
SELECT bucket, lane, priority, count(*), NULL FROM waiting GROUP BY bucket, lane, priority
 UNION ALL
SELECT bucket, lane, priority, nth, seq FROM waiting WHERE seq = ANY (:asked)
"""  # noqa: S608 - likewise

_LISTS = [bindparam(name, type_=BoundList(NUMBER)) for name in ("buckets", "asked")]
STATEMENTS = {
    dialect: text(statement).bindparams(*_LISTS)
    for dialect, statement in (("sqlite", _SQLITE), ("postgresql", _POSTGRES))
}
"""The statement of each database; a test pins its plan."""


class WaitingForBucket(NamedTuple):
    """A waiting task, and the bucket that has no room for it or for those before it in its line."""

    task: Task
    bucket: int

    @property
    def buckets(self) -> set[int]:
        """All buckets that it counts against."""
        return set() if self.task.limit_key is None else {one.bucket for one in bucket_ids_of(self.task.limit_key)}


async def starts(connection: AsyncConnection, waiting: Collection[WaitingForBucket]) -> dict[int, datetime]:
    """Return by `seq` the earliest time at which the rates of its limits let each task start.

    Only for tasks that now wait for a token, and that are among the first `MOST_COUNTED` that were counted.
    """
    fills = await _fills(connection, set().union(*(one.buckets for one in waiting)))
    asked = [one for one in waiting if one.bucket in fills and fills[one.bucket][0].is_waited_for]
    if not asked:
        return {}
    buckets = {one.bucket for one in asked}
    most = MOST_COUNTED // max(1, sum(fills[bucket][1] for bucket in buckets))
    crowds, stands = await _counted(connection, buckets, [one.task.seq for one in asked], most)
    found: dict[int, datetime] = {}
    for one in asked:
        task, bucket = one
        stand = stands.get((bucket, task.seq))
        needed = None if stand is None else tokens_until(stand, crowds[bucket], most)
        if stand is None or needed is None:
            continue
        # Another of its limits may have fewer tokens: the tasks before it in its own queue each take one of that too.
        others = (one.buckets & fills.keys()) - {bucket}
        at = [fills[bucket][0].reaches(needed), *(fills[other][0].reaches(stand.nth) for other in others)]
        told = [moment for moment in at if moment is not None]
        if len(told) == len(at):
            found[task.seq] = max(told)
    return found


async def _fills(connection: AsyncConnection, buckets: Collection[int]) -> Mapping[int, tuple[Fill, int]]:
    """Return the buckets that have a rate and a row, each with how many lines wait for it."""
    c = limit_tokens.c
    lines = select(func.count()).where(is_same(limit_lines.c.bucket, c.bucket)).scalar_subquery()
    statement = (
        select(c.bucket, c.tokens, c.filled_at, c.opens_at, limits.c.rate_count, limits.c.rate_seconds, lines)
        .join(limits, is_same(limits.c.num, c.limit_num))
        .where(is_among(c.bucket, "buckets"), limits.c.rate_count.is_not(None))
    )
    rows = await connection.execute(statement, {"buckets": buckets})
    return {
        bucket: (Fill(tokens, filled_at, count / seconds, opens_at is not None), waiting)
        for bucket, tokens, filled_at, opens_at, count, seconds, waiting in rows
    }


async def _counted(
    connection: AsyncConnection, buckets: Collection[int], asked: Collection[int], most: int
) -> tuple[dict[int, dict[tuple[int, int], int]], dict[tuple[int, int], WaitingPosition]]:
    """Return each bucket's waiting tasks by lane and priority, and the asked tasks' places by bucket and `seq`."""
    given: dict[str, Any] = {"buckets": buckets, "asked": asked, "most": most}
    crowds: dict[int, dict[tuple[int, int], int]] = defaultdict(dict)
    stands: dict[tuple[int, int], WaitingPosition] = {}
    for bucket, lane, priority, number, seq in await connection.execute(STATEMENTS[connection.dialect.name], given):
        if seq is None:
            crowds[bucket][lane, priority] = number
        else:
            stands[bucket, seq] = WaitingPosition(lane, priority, number)
    return crowds, stands

"""Queue positions: exact places of pending tasks, counted in ranges of the queue's index and never by sorting.

A task stands behind every pending task of its job (in a fair job: of its job and room) with a higher priority, and
behind those of its own priority with an earlier due time, or the same and a smaller seq. The first part comes from the
kept counts. For the second, the asked tasks of one queue and priority are brought into order and only the gaps between
neighbours are counted, so that a page of 100 rows costs one walk through the index up to its last row, not a hundred.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import orjson
from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import Status
from treadle_server.domain.tasks import Task

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_BEFORE_ALL_SEQ = -1

# One statement for any number of rows: its text never changes, so that it is compiled and prepared once. The literal
# 'pending' lets SQLite use the partial index, which it can't with a bound value.
_SQLITE = """
WITH asked AS MATERIALIZED (
  SELECT key AS i, value ->> 0 AS lane, value ->> 1 AS priority, value ->> 2 AS from_due, value ->> 3 AS from_seq,
         value ->> 4 AS to_due, value ->> 5 AS to_seq
    FROM json_each(:asked)
)
SELECT asked.i,
       sum((SELECT count(*) FROM tasks t
             WHERE t.status = 'pending' AND t.lane = line.id AND t.blocked = side.blocked
               AND t.priority = asked.priority
               AND (t.due_at, t.seq) > (asked.from_due, asked.from_seq)
               AND (t.due_at, t.seq) <= (asked.to_due, asked.to_seq)))
     + CASE WHEN asked.from_seq >= 0 THEN 0 ELSE
         (SELECT coalesce(sum(c.n), 0) FROM lanes l JOIN lane_counts c ON c.lane = l.id
           WHERE l.job_num = own.job_num AND l.room = own.room AND c.status = 'pending' AND c.priority > asked.priority)
       END
  FROM asked
  CROSS JOIN lanes own ON own.id = asked.lane
  CROSS JOIN lanes line ON line.job_num = own.job_num AND line.room = own.room
  CROSS JOIN (SELECT 0 AS blocked UNION ALL SELECT 1) side
 GROUP BY asked.i, asked.from_seq, asked.priority, own.job_num, own.room
 ORDER BY asked.i
"""

_POSTGRES = """
SELECT asked.i,
       sum(t.n) + CASE WHEN asked.from_seq >= 0 THEN 0 ELSE
         (SELECT coalesce(sum(c.n), 0) FROM lanes l
            JOIN (SELECT lane, status, priority, n FROM lane_counts
                  UNION ALL SELECT lane, status, priority, n FROM count_deltas) c ON c.lane = l.id
           WHERE l.job_num = own.job_num AND l.room = own.room AND c.status = 'pending' AND c.priority > asked.priority)
       END
  FROM (SELECT row_number() OVER () - 1 AS i, (v ->> 0)::bigint AS lane, (v ->> 1)::int AS priority,
               (v ->> 2)::timestamptz AS from_due, (v ->> 3)::bigint AS from_seq,
               (v ->> 4)::timestamptz AS to_due, (v ->> 5)::bigint AS to_seq
          FROM jsonb_array_elements(CAST(:asked AS jsonb)) v) asked
  JOIN lanes own ON own.id = asked.lane
  JOIN lanes line ON line.job_num = own.job_num AND line.room = own.room
 CROSS JOIN (VALUES (false), (true)) side (blocked)
 CROSS JOIN LATERAL (
       SELECT count(*) AS n FROM tasks t
        WHERE t.status = 'pending' AND t.lane = line.id AND t.blocked = side.blocked AND t.priority = asked.priority
          AND (t.due_at, t.seq) > (asked.from_due, asked.from_seq)
          AND (t.due_at, t.seq) <= (asked.to_due, asked.to_seq)) t
 GROUP BY asked.i, asked.from_seq, asked.priority, own.job_num, own.room
 ORDER BY asked.i
"""

STATEMENTS: dict[str, TextClause] = {"sqlite": text(_SQLITE), "postgresql": text(_POSTGRES)}
"""The statement of each database; a test pins its plan."""


async def positions(connection: AsyncConnection, tasks: Iterable[Task]) -> dict[int, int]:
    """Return the 1-based queue position of each pending task among `tasks`, by `seq`; others have none."""
    groups = _groups([task for task in tasks if task.status is Status.PENDING])
    if not groups:
        return {}
    asked = [gap for group in groups for gap in _gaps(group, connection.dialect.name)]
    statement = STATEMENTS[connection.dialect.name]
    counts = [int(row[1]) for row in await connection.execute(statement, {"asked": orjson.dumps(asked).decode()})]
    found: dict[int, int] = {}
    for group in groups:
        own, counts = counts[: len(group)], counts[len(group) :]
        found.update(zip((task.seq for task in group), accumulate(own), strict=True))
    return found


async def position(connection: AsyncConnection, task: Task) -> int | None:
    """Return the queue position of `task`, or None unless it is pending."""
    return (await positions(connection, [task])).get(task.seq)


def _groups(tasks: Sequence[Task]) -> list[list[Task]]:
    """Return the tasks apart by lane and priority, each group in the queue's order."""
    by_line: dict[tuple[int, int], list[Task]] = defaultdict(list)
    for task in tasks:
        by_line[task.lane, task.priority].append(task)
    return [sorted(group, key=lambda task: (task.due_at, task.seq)) for group in by_line.values()]


def _gaps(group: Sequence[Task], dialect: str) -> list[list[Any]]:
    """Return for each task the range from its predecessor (exclusive) to itself; the first starts before all."""
    start: list[Any] = [-(2**62) if dialect == "sqlite" else "-infinity", _BEFORE_ALL_SEQ]
    gaps = []
    for task in group:
        end = [_bound(task.due_at, dialect), task.seq]
        gaps.append([task.lane, task.priority, *start, *end])
        start = end
    return gaps


def _bound(instant: datetime, dialect: str) -> int | str:
    if dialect == "sqlite":
        return (instant - _EPOCH) // _MICROSECOND
    return instant.isoformat()

"""Exact queue positions of pending tasks, counted in ranges of the queue's index without sorting.

A task comes after every pending task of its job (in a fair job: of its job and room) with a higher priority, and after
those of its own priority with an earlier due time, or the same and a smaller `seq`. The first number comes from the
kept counts. For the second, the asked tasks of one queue and priority are sorted and only the gaps between
neighbours are counted, so that a page of 100 rows costs one walk through the index up to its last row, not a hundred.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import orjson
from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.store.types import micros

_BEFORE_ALL_SEQ = -1
_BEHIND_ALL_SEQ = 2**62

# One statement for any number of rows: its text never changes, so it is compiled and prepared once. The literal
# 'pending' lets SQLite use the partial index, which it can't with a bound value.
_GAP = """
t.status = 'pending' AND t.lane = line.id AND t.blocked = side.blocked AND t.priority = asked.priority
"""

# For SQLite a gap is three ranges: with (due_at, seq) compared as a pair it rechecks every entry, at 200 ns an entry
# instead of 60.
_THREE_RANGES = f"""
  (SELECT count(*) FROM tasks t
    WHERE {_GAP} AND t.due_at = asked.from_due AND t.seq > asked.from_seq AND t.seq <= asked.from_to)
+ (SELECT count(*) FROM tasks t
    WHERE {_GAP} AND t.due_at > asked.from_due AND t.due_at < asked.to_due)
+ (SELECT count(*) FROM tasks t
    WHERE {_GAP} AND t.due_at = asked.to_due AND t.seq > asked.to_from AND t.seq <= asked.to_seq)
"""  # noqa: S608 - made of constants

# For PostgreSQL a gap is a range of pairs. With a bound of seq alone it might walk the primary key where its statistics
# date from a time with few tasks: 270,000 pages instead of 1,700 for the 100 last of 20,000.
_ONE_RANGE = f"""
  (SELECT count(*) FROM tasks t
    WHERE {_GAP} AND (t.due_at, t.seq) > (asked.from_due, asked.from_seq)
      AND (t.due_at, t.seq) <= (asked.to_due, asked.to_seq))
"""  # noqa: S608 - made of constants

_SQLITE = f"""
WITH asked AS MATERIALIZED (
  SELECT key AS i, value ->> 0 AS lane, value ->> 1 AS priority, value ->> 2 AS from_due, value ->> 3 AS from_seq,
         value ->> 4 AS from_to, value ->> 5 AS to_due, value ->> 6 AS to_from, value ->> 7 AS to_seq
    FROM json_each(:asked)
)
SELECT asked.i,
       sum({_THREE_RANGES})
     + CASE WHEN asked.from_seq >= 0 THEN 0 ELSE
         (SELECT coalesce(sum(c.n), 0) FROM lanes l JOIN lane_counts c ON c.lane = l.id
           WHERE l.job_num = own.job_num AND l.room = own.room AND c.status = 'pending' AND c.priority > asked.priority)
       END
  FROM asked
  CROSS JOIN lanes own ON own.id = asked.lane
  CROSS JOIN lanes line ON line.job_num = own.job_num AND line.room = own.room
  CROSS JOIN (SELECT 0 AS blocked UNION ALL SELECT 1) side
 GROUP BY asked.i
 ORDER BY asked.i
"""  # noqa: S608 - made of constants

_POSTGRES = f"""
SELECT asked.i,
       sum({_ONE_RANGE})
     + CASE WHEN asked.from_seq >= 0 THEN 0 ELSE
         (SELECT coalesce(sum(c.n), 0) FROM lanes l
            JOIN (SELECT lane, status, priority, n FROM lane_counts
                  UNION ALL SELECT lane, status, priority, n FROM count_deltas) c ON c.lane = l.id
           WHERE l.job_num = own.job_num AND l.room = own.room AND c.status = 'pending' AND c.priority > asked.priority)
       END
  FROM (SELECT ordinality - 1 AS i, (v ->> 0)::bigint AS lane, (v ->> 1)::int AS priority,
               (v ->> 2)::timestamptz AS from_due, (v ->> 3)::bigint AS from_seq,
               (v ->> 5)::timestamptz AS to_due, (v ->> 7)::bigint AS to_seq
          FROM jsonb_array_elements(CAST(:asked AS jsonb)) WITH ORDINALITY AS a (v, ordinality)) asked
  JOIN lanes own ON own.id = asked.lane
  JOIN lanes line ON line.job_num = own.job_num AND line.room = own.room
 CROSS JOIN (VALUES (false), (true)) side (blocked)
 GROUP BY asked.i, asked.from_seq, asked.priority, own.job_num, own.room
 ORDER BY asked.i
"""  # noqa: S608 - made of constants

STATEMENTS: dict[str, TextClause] = {"sqlite": text(_SQLITE), "postgresql": text(_POSTGRES)}
"""The statement of each database; a test pins its plan."""


async def positions(connection: AsyncConnection, tasks: Iterable[Task]) -> dict[int, int]:
    """Return the 1-based queue position of each pending task among `tasks`, by `seq`; others are left out.

    So are tasks of a queue that was created after the connection's snapshot: observers learn of tasks from commits,
    which may be newer than the snapshot.
    """
    groups = _groups([task for task in tasks if task.status is Status.PENDING])
    if not groups:
        return {}
    asked = [gap for group in groups for gap in _gaps(group, connection.dialect.name)]
    statement = STATEMENTS[connection.dialect.name]
    rows = await connection.execute(statement, {"asked": orjson.dumps(asked).decode()})
    counts = {int(row[0]): int(row[1]) for row in rows}
    found: dict[int, int] = {}
    first = 0
    for group in groups:
        own = range(first, first := first + len(group))
        # A group is of one queue, which is in the snapshot or is not.
        if own[0] in counts:
            found.update(zip((task.seq for task in group), accumulate(counts[i] for i in own), strict=True))
    return found


async def position(connection: AsyncConnection, task: Task) -> int | None:
    """Return the queue position of `task`, or None unless it is pending."""
    return (await positions(connection, [task])).get(task.seq)


def _groups(tasks: Sequence[Task]) -> list[list[Task]]:
    """Return the tasks grouped by lane and priority, each group in the queue's order."""
    by_line: dict[tuple[int, int], list[Task]] = defaultdict(list)
    for task in tasks:
        by_line[task.lane, task.priority].append(task)
    return [sorted(group, key=lambda task: (task.due_at, task.seq)) for group in by_line.values()]


def _gaps(group: Sequence[Task], dialect: str) -> list[list[Any]]:
    """Return for each task the range from its predecessor (exclusive) to itself; the first begins before all tasks."""
    from_due: Any = -(2**62) if dialect == "sqlite" else "-infinity"
    from_seq = _BEFORE_ALL_SEQ
    gaps = []
    for task in group:
        to_due: Any = micros(task.due_at) if dialect == "sqlite" else task.due_at.isoformat()
        # Two tasks with the same due time need one range between them, not the end of one range and the start of
        # another.
        at_once = to_due == from_due
        from_to, to_from = (task.seq, task.seq) if at_once else (_BEHIND_ALL_SEQ, _BEFORE_ALL_SEQ)
        gaps.append([task.lane, task.priority, from_due, from_seq, from_to, to_due, to_from, task.seq])
        from_due, from_seq = to_due, task.seq
    return gaps

"""Exact queue positions of pending tasks, counted in the queue's index.

A task comes after every pending task of its job (in a fair job: of its job and room) with a higher priority, and after
those of its own priority with an earlier due time, or the same and a smaller `seq`. The first number comes from the
kept counts, which also say in which lanes tasks of a priority wait. For the second, the asked tasks of one queue and
priority are sorted and only the gaps between neighbours are counted in each of those lanes, so that a page of 100 rows
costs one walk through the index up to its last row, not a hundred.

Each gap is a look into every lane, however few tasks wait there. Where that would be more looks than there are tasks,
the tasks up to the last row are sorted and numbered instead. A page of 50 rows among 5,000 pools takes 1.6 s on
PostgreSQL in gaps, and 0.02 numbered.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import orjson
from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.store.types import micros

_BEFORE_ALL_SEQ = -1
_BEHIND_ALL_SEQ = 2**62

# Each statement serves any number of rows: its text never changes, so it is compiled and prepared once. The literal
# 'pending' lets SQLite use the partial index, which it can't with a bound value.


def _waiting(counts: str) -> str:
    """Return a query of how many tasks wait by queue, priority and lane, for the queues in `own`."""
    return f"""
    SELECT own.queue, c.priority, c.lane, c.n
      FROM own
      JOIN lanes line ON line.job_num = own.job_num AND line.room = own.room
      JOIN {counts} c ON c.lane = line.id
     WHERE own.id = own.queue AND c.status = 'pending'
    """  # noqa: S608 - made of constants


_WAITING = {
    "sqlite": _waiting("lane_counts"),
    "postgresql": f"{_waiting('lane_counts')} UNION ALL {_waiting('count_deltas')}",
}


def _bands(lanes: str, waiting: str) -> str:
    """Return a statement that tells the queue of each asked lane, and of the queue's first one what waits there."""
    return f"""
    WITH own AS MATERIALIZED (
      SELECT id, job_num, room, min(id) OVER (PARTITION BY job_num, room) AS queue FROM lanes WHERE id IN ({lanes})
    )
    SELECT own.id, own.queue, band.priority, band.lanes, band.n
      FROM own
      LEFT JOIN (SELECT queue, priority, count(DISTINCT CASE WHEN n > 0 THEN lane END) AS lanes, sum(n) AS n
                   FROM ({waiting}) waiting GROUP BY queue, priority HAVING sum(n) > 0) band ON band.queue = own.id
    """  # noqa: S608 - made of constants


BANDS = {
    "sqlite": text(_bands("SELECT value FROM json_each(:lanes)", _WAITING["sqlite"])),
    "postgresql": text(
        _bands(
            "SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(CAST(:lanes AS jsonb))",
            _WAITING["postgresql"],
        )
    ),
}

# What is asked, joined with the lanes where tasks of its queue and priority wait, each as the two ranges of the index
# that have them in order. A queue is named by one of its lanes. What comes before all of them is summed in the same
# statement: in a loose read PostgreSQL's see a new snapshot each.
_SQLITE_PARTS = """
 CROSS JOIN lanes own ON own.id = asked.queue
 CROSS JOIN lanes line ON line.job_num = own.job_num AND line.room = own.room
 CROSS JOIN lane_counts part
         ON part.lane = line.id AND part.status = 'pending' AND part.priority = asked.priority AND part.n > 0
 CROSS JOIN (SELECT false AS blocked UNION ALL SELECT true) side
"""

_SQLITE_BEFORE = """
(SELECT coalesce(sum(c.n), 0) FROM lanes l JOIN lane_counts c ON c.lane = l.id
  WHERE l.job_num = own.job_num AND l.room = own.room AND c.status = 'pending' AND c.priority > asked.priority)
"""

_POSTGRES_WITH = f"""
own AS MATERIALIZED (
  SELECT id, job_num, room, id AS queue FROM lanes WHERE id = ANY (ARRAY(SELECT queue FROM asked))
), waiting AS MATERIALIZED ({_WAITING["postgresql"]}
), part AS MATERIALIZED (
  SELECT DISTINCT queue, priority, lane FROM waiting WHERE n > 0
)
"""  # noqa: S608 - made of constants

_POSTGRES_PARTS = """
  JOIN part ON part.queue = asked.queue AND part.priority = asked.priority
 CROSS JOIN (VALUES (false), (true)) side (blocked)
"""

_POSTGRES_BEFORE = """
(SELECT coalesce(sum(w.n), 0) FROM waiting w WHERE w.queue = asked.queue AND w.priority > asked.priority)
"""

_IN_PART = "t.status = 'pending' AND t.lane = part.lane AND t.blocked = side.blocked AND t.priority = part.priority"

# For SQLite a gap is three ranges: with (due_at, seq) compared as a pair it rechecks every entry, at 200 ns an entry
# instead of 60.
_SQLITE_GAPS = f"""
WITH asked AS MATERIALIZED (
  SELECT key AS i, value ->> 0 AS queue, value ->> 1 AS priority, value ->> 2 AS from_due, value ->> 3 AS from_seq,
         value ->> 4 AS from_to, value ->> 5 AS to_due, value ->> 6 AS to_from, value ->> 7 AS to_seq
    FROM json_each(:asked)
)
SELECT asked.i, sum(
    (SELECT count(*) FROM tasks t
      WHERE {_IN_PART} AND t.due_at = asked.from_due AND t.seq > asked.from_seq AND t.seq <= asked.from_to)
  + (SELECT count(*) FROM tasks t
      WHERE {_IN_PART} AND t.due_at > asked.from_due AND t.due_at < asked.to_due)
  + (SELECT count(*) FROM tasks t
      WHERE {_IN_PART} AND t.due_at = asked.to_due AND t.seq > asked.to_from AND t.seq <= asked.to_seq))
  + CASE WHEN asked.from_seq >= 0 THEN 0 ELSE {_SQLITE_BEFORE} END
  FROM asked {_SQLITE_PARTS}
 GROUP BY asked.i
"""  # noqa: S608 - made of constants

# For PostgreSQL a gap is a range of pairs. With a bound of seq alone it might walk the primary key where its statistics
# date from a time with few tasks: 270,000 pages instead of 1,700 for the 100 last of 20,000.
_POSTGRES_GAPS = f"""
WITH asked AS MATERIALIZED (
  SELECT ordinality - 1 AS i, (v ->> 0)::bigint AS queue, (v ->> 1)::int AS priority,
         (v ->> 2)::timestamptz AS from_due, (v ->> 3)::bigint AS from_seq,
         (v ->> 5)::timestamptz AS to_due, (v ->> 7)::bigint AS to_seq
    FROM jsonb_array_elements(CAST(:asked AS jsonb)) WITH ORDINALITY AS a (v, ordinality)
), {_POSTGRES_WITH}
SELECT asked.i, sum(
    (SELECT count(*) FROM tasks t
      WHERE {_IN_PART} AND (t.due_at, t.seq) > (asked.from_due, asked.from_seq)
        AND (t.due_at, t.seq) <= (asked.to_due, asked.to_seq)))
  + CASE WHEN asked.from_seq >= 0 THEN 0 ELSE {_POSTGRES_BEFORE} END
  FROM asked {_POSTGRES_PARTS}
 GROUP BY asked.i, asked.queue, asked.priority, asked.from_seq
"""  # noqa: S608 - made of constants

GAPS = {"sqlite": text(_SQLITE_GAPS), "postgresql": text(_POSTGRES_GAPS)}
"""The statements that count gaps; a test pins their plans."""


def _numbering(before: str, parts: str, entries: str, seqs: str) -> str:
    return f"""
    , band AS MATERIALIZED (SELECT asked.*, {before})
    SELECT seq, n
      FROM (SELECT t.seq, asked.before + row_number()
                   OVER (PARTITION BY asked.queue, asked.priority ORDER BY t.due_at, t.seq) AS n
              FROM band asked {parts} CROSS JOIN {entries}) numbered
     WHERE seq IN ({seqs})
    """  # noqa: S608 - made of constants


_SQLITE_NUMBERED = f"""
WITH asked AS MATERIALIZED (
  SELECT value ->> 0 AS queue, value ->> 1 AS priority, value ->> 2 AS to_due FROM json_each(:asked)
)
{
    _numbering(
        f"{_SQLITE_BEFORE} AS before FROM asked JOIN lanes own ON own.id = asked.queue",
        _SQLITE_PARTS,
        f"tasks t ON {_IN_PART} AND t.due_at <= asked.to_due",
        "SELECT value FROM json_each(:seqs)",
    )
}
"""  # noqa: S608 - made of constants

# OFFSET keeps PostgreSQL from joining all pending tasks with the parts.
_POSTGRES_NUMBERED = f"""
WITH asked AS MATERIALIZED (
  SELECT (v ->> 0)::bigint AS queue, (v ->> 1)::int AS priority, (v ->> 2)::timestamptz AS to_due
    FROM jsonb_array_elements(CAST(:asked AS jsonb)) AS a (v)
), {_POSTGRES_WITH}
{
    _numbering(
        f"{_POSTGRES_BEFORE} AS before FROM asked",
        _POSTGRES_PARTS,
        f"LATERAL (SELECT due_at, seq FROM tasks t WHERE {_IN_PART} AND t.due_at <= asked.to_due OFFSET 0) t",
        "SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(CAST(:seqs AS jsonb))",
    )
}
"""  # noqa: S608 - made of constants

NUMBERED = {"sqlite": text(_SQLITE_NUMBERED), "postgresql": text(_POSTGRES_NUMBERED)}
"""The statements that number tasks; a test pins their plans."""


class _Band(NamedTuple):
    """The pending tasks of one priority in a queue, by the kept counts."""

    queue: int
    priority: int
    lanes: int
    n: int


async def positions(connection: AsyncConnection, tasks: Iterable[Task]) -> dict[int, int]:
    """Return the 1-based queue position of each pending task among `tasks`, by `seq`; others are left out.

    So are tasks of a queue that was created after the connection's snapshot: observers learn of tasks from commits,
    which may be newer than the snapshot.
    """
    pending = [task for task in tasks if task.status is Status.PENDING]
    if not pending:
        return {}
    found: dict[int, int] = {}
    in_gaps: list[tuple[_Band, list[Task]]] = []
    numbered: list[tuple[_Band, list[Task]]] = []
    for band, group in await _groups(connection, pending):
        (numbered if len(group) * band.lanes > band.n else in_gaps).append((band, group))
    if in_gaps:
        found |= await _counted(connection, in_gaps)
    if numbered:
        found |= await _numbered(connection, numbered)
    return found


async def position(connection: AsyncConnection, task: Task) -> int | None:
    """Return the queue position of `task`, or None unless it is pending."""
    return (await positions(connection, [task])).get(task.seq)


async def _groups(connection: AsyncConnection, pending: Sequence[Task]) -> list[tuple[_Band, list[Task]]]:
    """Return the tasks by queue and priority, each group in the queue's order."""
    queues: dict[int, int] = {}
    bands: dict[tuple[int, int], _Band] = {}
    lanes = sorted({task.lane for task in pending})
    for lane, queue, priority, parts, n in await _rows(connection, BANDS, lanes=lanes):
        queues[lane] = queue
        if lane == queue and n is not None:
            bands[queue, priority] = _Band(queue, priority, parts, int(n))
    groups: dict[_Band, list[Task]] = defaultdict(list)
    for task in pending:
        if task.lane in queues and (band := bands.get((queues[task.lane], task.priority))) is not None:
            groups[band].append(task)
    return [(band, sorted(group, key=lambda task: (task.due_at, task.seq))) for band, group in groups.items()]


async def _counted(connection: AsyncConnection, groups: Sequence[tuple[_Band, Sequence[Task]]]) -> dict[int, int]:
    """Return the positions of tasks that are in the queue's order, by what is in the gaps between them."""
    asked = [gap for band, group in groups for gap in _gaps(band, group, connection.dialect.name)]
    counts = {i: int(n) for i, n in await _rows(connection, GAPS, asked=asked)}
    found: dict[int, int] = {}
    first = 0
    for _, group in groups:
        own = range(first, first := first + len(group))
        # All of a band's gaps are there, or none: another server may have taken its last task since.
        if own[0] in counts:
            found.update(zip((task.seq for task in group), accumulate(counts[i] for i in own), strict=True))
    return found


async def _numbered(connection: AsyncConnection, groups: Sequence[tuple[_Band, Sequence[Task]]]) -> dict[int, int]:
    """Return the positions of tasks that are in the queue's order, by numbering all up to the last."""
    asked = [[band.queue, band.priority, _instant(group[-1], connection.dialect.name)] for band, group in groups]
    seqs = [task.seq for _, group in groups for task in group]
    return {seq: int(n) for seq, n in await _rows(connection, NUMBERED, asked=asked, seqs=seqs)}


async def _rows(connection: AsyncConnection, statements: dict[str, TextClause], **given: list[Any]) -> Sequence[Any]:
    bound = {name: orjson.dumps(values).decode() for name, values in given.items()}
    return (await connection.execute(statements[connection.dialect.name], bound)).all()


def _gaps(band: _Band, group: Sequence[Task], dialect: str) -> list[list[Any]]:
    """Return for each task the range from its predecessor (exclusive) to itself; the first begins before all tasks."""
    from_due: Any = -(2**62) if dialect == "sqlite" else "-infinity"
    from_seq = _BEFORE_ALL_SEQ
    gaps = []
    for task in group:
        to_due = _instant(task, dialect)
        # Two tasks with the same due time need one range between them, not the end of one range and the start of
        # another.
        at_once = to_due == from_due
        from_to, to_from = (task.seq, task.seq) if at_once else (_BEHIND_ALL_SEQ, _BEFORE_ALL_SEQ)
        gaps.append([band.queue, band.priority, from_due, from_seq, from_to, to_due, to_from, task.seq])
        from_due, from_seq = to_due, task.seq
    return gaps


def _instant(task: Task, dialect: str) -> Any:
    return micros(task.due_at) if dialect == "sqlite" else task.due_at.isoformat()

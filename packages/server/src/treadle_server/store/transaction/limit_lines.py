"""The writer's reads and writes of lines: the tasks of a lane that count against the same limits, in order.

On PostgreSQL a row is looked up along an index, whatever statistics the planner has: see `hot.py`.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, false, func, or_, select, true

from treadle_server.domain.limits import BucketId, Line
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import is_among
from treadle_server.store.prepared import Prepared
from treadle_server.store.tables import IN_LINE, limit_lines, tasks
from treadle_server.store.transaction.rows import insert_tuples
from treadle_server.store.transaction.targets import PENDING_AMONG, keeps_waiting

_c = tasks.c


class Waiting(NamedTuple):
    """A task of a line, with the fields that its limits need."""

    seq: int
    limits: str
    rank: int
    due_at: Any
    """The driver's value."""
    is_open: bool
    """Whether it may be claimed."""


class Parked(NamedTuple):
    """A waiting line, with the bucket that it waits for and its first task."""

    line: Line
    bucket_id: BucketId
    first: Waiting


OPEN = f"{IN_LINE} AND blocked = false"
PARKED = f"{IN_LINE} AND blocked = true AND parked = true"
"""Tasks that nothing but a limit holds back: those that may be claimed, and those that wait.

They are two ranges of the index of lines, each in queue order.
"""

# Most lines are empty once a task of theirs was claimed: the EXISTS finds that with one lookup instead of two.
_FIRST = f"""
WITH bound (most) AS (SELECT ?)
SELECT t.lane, t.limit_key, t.seq, t.limits, -t.priority, t.due_at, NOT t.blocked
  FROM {{rows}} l CROSS JOIN tasks t
 WHERE EXISTS (SELECT 1 FROM tasks WHERE limit_key = l.column2 AND lane = l.column1 AND {IN_LINE})
   AND t.seq IN (SELECT seq FROM tasks WHERE limit_key = l.column2 AND lane = l.column1 AND {OPEN}
                  UNION ALL
                 SELECT seq FROM (SELECT seq FROM tasks
                                   WHERE limit_key = l.column2 AND lane = l.column1 AND {PARKED}
                                   ORDER BY priority DESC, due_at, seq LIMIT (SELECT most FROM bound)))
 ORDER BY t.lane, t.limit_key, t.priority DESC, t.due_at, t.seq
"""  # noqa: S608 - made of constants
_PG_OF_LINE = "tasks.limit_key = l.limit_key AND tasks.lane = l.lane"
_PG_WAITING = f"""
SELECT seq, limits::text, -priority AS rank, due_at, false AS is_open FROM tasks
 WHERE {_PG_OF_LINE} AND {PARKED} {{0}} ORDER BY priority DESC, due_at, seq LIMIT {{1}}
"""  # noqa: S608 - likewise


def _pg_first(lock: str, others: str) -> str:
    """Return PostgreSQL's statement: one for all that is done with lines, because each round trip takes 0.1 ms."""
    return f"""
    WITH called AS (
         DELETE FROM limit_lines USING unnest($1::bigint[], $2::text[]) AS l (lane, limit_key)
          WHERE limit_lines.lane = ANY (ARRAY[l.lane]) AND limit_lines.limit_key = ANY (ARRAY[l.limit_key]))
    SELECT l.lane, l.limit_key, t.*
      FROM unnest($1::bigint[], $2::text[]) AS l (lane, limit_key)
     CROSS JOIN LATERAL (
           WITH parked AS MATERIALIZED ({_PG_WAITING.format("", "$3")} {lock}),
                open AS MATERIALIZED (
                SELECT seq, limits::text, -priority AS rank, due_at, true FROM tasks
                 WHERE {_PG_OF_LINE} AND {OPEN} {lock})
         SELECT *, false FROM open UNION ALL SELECT *, false FROM parked {others}) AS t (seq, limits, rank, due_at)
     ORDER BY l.lane, l.limit_key, t.rank, t.due_at, t.seq
    """  # noqa: S608 - made of constants


_OTHERS = _PG_WAITING.format("AND seq <> ALL (ARRAY(SELECT seq FROM parked))", "1")
_PG_FIRST = _pg_first("FOR UPDATE SKIP LOCKED", f"UNION ALL SELECT *, true FROM ({_OTHERS}) AS other")  # noqa: S608
_PG_FIRST_OF_EXCLUSIVE = _pg_first("", "")


async def take_lines(
    tx: Tx, lines: Collection[Line], most: int
) -> tuple[dict[Line, list[Waiting]], dict[Line, Waiting]]:
    """Return each line's tasks that only limits hold back, in order, and delete the lines' rows in `limit_lines`.

    They are all claimable ones and up to `most` waiting ones, which includes the first `most` of the line. Unless this
    server writes exclusively, the second value is the first other waiting task of each line: one beyond `most`, or one
    that another server has locked.
    """
    found: dict[Line, list[Waiting]] = {line: [] for line in lines}
    others: dict[Line, Waiting] = {}
    if tx.dialect == "sqlite":
        # It is quicker to find that no line waits at all than to look up each.
        if tx.inline.fetch("SELECT 1 FROM limit_lines LIMIT 1"):
            tx.inline.run_together("DELETE FROM limit_lines WHERE (lane, limit_key) IN {rows}", (), list(lines))
        for lane, key, *task in tx.inline.fetch_together(_FIRST, (most,), list(lines)):
            found[Line(lane, key)].append(Waiting(*task))
        return found, others
    statement = _PG_FIRST_OF_EXCLUSIVE if tx.is_exclusive else _PG_FIRST
    columns = [line.lane for line in lines], [line.limit_key for line in lines]
    for lane, key, *task, is_other in await tx.direct.fetch(statement, (*columns, most)):
        if is_other:
            others[Line(lane, key)] = Waiting(*task)
        else:
            found[Line(lane, key)].append(Waiting(*task))
    return found, others


async def set_parked(tx: Tx, seqs: Collection[int], *, parked: bool) -> set[int]:
    """Make pending tasks wait for their limits, or make them claimable; return their lanes."""
    return {lane for lane, _ in await (_park if parked else _let_through).rows(tx, seqs=sorted(seqs))}


_park = Prepared(PENDING_AMONG.values(parked=true(), blocked=true()))
_let_through = Prepared(PENDING_AMONG.values(parked=false(), blocked=false()))


async def park_for_limits(tx: Tx, seqs: Collection[int]) -> None:
    """Make pending tasks without a target wait only for their limits, unless their last run's code is still running."""
    await _stand.rows(tx, seqs=sorted(seqs))


_stand = Prepared(
    PENDING_AMONG.where(_c.limit_key.is_not(None), _c.target_num.is_(None)).values(
        parked=and_(_c.blocked, ~keeps_waiting), blocked=or_(_c.blocked, keeps_waiting)
    )
)


async def lines_of(tx: Tx, seqs: Collection[int]) -> set[Line]:
    """Return the lines of the tasks that have limits."""
    return {Line(*row) for row in await _lines.rows(tx, seqs=seqs)}


_lines = Prepared(select(_c.lane, _c.limit_key).where(_c.limit_key.is_not(None), is_among(_c.seq, "seqs")))


async def write_parked(tx: Tx, parked: Sequence[Parked]) -> None:
    """Record which lines wait, and for which buckets."""
    rows = [(*p.line, p.bucket_id.bucket, p.bucket_id.num, p.first.rank, p.first.due_at, p.first.seq) for p in parked]
    await insert_tuples(tx, limit_lines, ("lane", "limit_key", "bucket", "limit_num", "rank", "due_at", "seq"), rows)


async def waiting_for(tx: Tx, buckets: Collection[int], most: int) -> tuple[dict[Line, int], set[int]]:
    """Return the first `most` lines of each lane that wait for each of the buckets, and the buckets with more."""
    rows = await _waiting.rows(tx, buckets=buckets, most=most + 1)
    lines = {Line(lane, key): bucket for lane, key, bucket, nth in rows if nth <= most}
    return lines, {bucket for _, _, bucket, nth in rows if nth > most}


_l = limit_lines.c
_NTH = func.row_number().over(partition_by=(_l.bucket, _l.lane), order_by=(_l.rank, _l.due_at, _l.seq))
_FIRST_OF_LANES = (
    select(_l.lane, _l.limit_key, _l.bucket, _NTH.label("nth"))
    .where(is_among(_l.bucket, "buckets"))
    .subquery("waiting")
)
_waiting = Prepared(select(_FIRST_OF_LANES).where(_FIRST_OF_LANES.c.nth <= bindparam("most")))

"""What a transaction reads and writes of limits, each in one statement for any number of rows, on both databases.

On PostgreSQL a row is looked up along an index, whatever the planner knows of the table: see `hot.py`.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

import orjson

from treadle.wire.status import LEASED, Status
from treadle_server.domain.limits import LIMIT_FIELDS, Bucket, Limit, Line, Place, filled_until
from treadle_server.store.base import Tx
from treadle_server.store.postgres.writer import DirectConnection
from treadle_server.store.sqlite.rows import instant, micros
from treadle_server.store.sqlite.writer import InlineConnection

Rows = Sequence[Sequence[Any]]

_KEY = 7421
"""The advisory lock under which servers decide about limits."""


class Waiting(NamedTuple):
    """A task of a line, as far as its limits go."""

    seq: int
    limits: str
    rank: int
    due_at: Any
    """As the driver has it."""


class Parked(NamedTuple):
    """A line that waits: for which bucket, and how its first task stands."""

    line: Line
    place: Place
    first: Waiting


async def fetch(tx: Tx, sqlite: str, postgres: str, *values: Any) -> Rows:
    """Run the database's statement and return its rows; a list is bound as its array, or as JSON."""
    if isinstance(tx.connection, InlineConnection):
        return tx.connection.fetch(sqlite, [_said(value) for value in values])
    return await cast("DirectConnection", tx.connection).fetch(postgres, values)


def _said(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, list) else value


def _at(tx: Tx, moment: datetime | None) -> Any:
    return micros(moment) if tx.dialect == "sqlite" and moment is not None else moment


async def lock_limits(tx: Tx) -> None:
    """Let no other server decide about limits until the commit.

    Who has this lock waits for no task's row: those that another one has are left to it, which decides about their
    lines when its turn comes.
    """
    if not tx.is_exclusive and tx.dialect == "postgresql":
        await cast("DirectConnection", tx.connection).fetch("SELECT pg_advisory_xact_lock($1::bigint)", (_KEY,))


_COLUMNS = ", ".join(LIMIT_FIELDS)


def limit_of(row: Sequence[Any]) -> Limit:
    """Return a row of `limits`."""
    limit = Limit(*row)
    if isinstance(limit.created_at, int):
        limit.created_at = instant(limit.created_at)
    return limit


async def limits_by_num(tx: Tx, nums: Collection[int], *, lock: str = "") -> list[Limit]:
    """Return those of the limits that there are; `lock` is how PostgreSQL locks their rows."""
    if not nums:
        return []
    text = f"SELECT {_COLUMNS} FROM limits WHERE "  # noqa: S608 - names of columns
    rows = await fetch(
        tx,
        f"{text} num IN (SELECT value FROM json_each(?))",  # noqa: S608 - likewise
        f"{text} num = ANY ($1::bigint[]) ORDER BY num {lock}",
        sorted(nums),
    )
    return [limit_of(row) for row in rows]


async def read_buckets(tx: Tx, places: Collection[Place], now: datetime) -> dict[int, Bucket]:
    """Return the buckets of those of the limits that there are, as they are `now`."""
    limits = {limit.num: limit for limit in await limits_by_num(tx, {place.num for place in places})}
    found = {
        place.bucket: Bucket(limit, tokens=float(limit.rate_burst or 0))
        for place in places
        if (limit := limits.get(place.num)) is not None
    }
    wanted = [bucket for bucket, one in found.items() if one.limit.concurrency is not None]
    for bucket, used in await fetch(tx, _USED, _PG_USED, wanted) if wanted else ():
        found[bucket].used = int(used)
    wanted = [bucket for bucket, one in found.items() if one.limit.rate_count is not None]
    for bucket, tokens, filled_at, opens_at in await fetch(tx, _TOKENS, _PG_TOKENS, wanted) if wanted else ():
        one = found[bucket]
        since = instant(filled_at) if isinstance(filled_at, int) else filled_at
        one.tokens, one.filled_at = one.limit.filled(tokens, since, now), filled_until(since, now)
        one.is_waited_for = opens_at is not None
    return found


_USED = """
SELECT bucket, sum(weight) FROM limit_uses WHERE bucket IN (SELECT value FROM json_each(?)) GROUP BY bucket
"""
_PG_USED = "SELECT bucket, sum(weight) FROM limit_uses WHERE bucket = ANY ($1::bigint[]) GROUP BY bucket"
_TOKENS = """
SELECT bucket, tokens, filled_at, opens_at FROM limit_tokens WHERE bucket IN (SELECT value FROM json_each(?))
"""
_PG_TOKENS = "SELECT bucket, tokens, filled_at, opens_at FROM limit_tokens WHERE bucket = ANY ($1::bigint[])"


async def write_tokens(tx: Tx, buckets: dict[int, Bucket], now: datetime) -> None:
    """Write how many tokens each of the buckets has `now`, and when a line that waits for one may go on."""
    if not buckets:
        return
    rows = [
        (number, one.limit.num, one.tokens, one.filled_at or now, one.opens_at(now))
        for number, one in sorted(buckets.items())
    ]
    if isinstance(tx.connection, InlineConnection):
        written = [(*row[:3], micros(row[3]), _at(tx, row[4])) for row in rows]
        tx.connection.run_many(_FILL.format("VALUES (?, ?, ?, ?, ?)"), written)
        return
    arrays = "SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::float8[], $4::timestamptz[], $5::timestamptz[])"
    columns = [list(column) for column in zip(*rows, strict=True)]
    await cast("DirectConnection", tx.connection).change(_FILL.format(arrays), columns)


_FILL = """
INSERT INTO limit_tokens (bucket, limit_num, tokens, filled_at, opens_at) {0}
    ON CONFLICT (bucket) DO UPDATE SET tokens = excluded.tokens, filled_at = excluded.filled_at,
                                       opens_at = excluded.opens_at
"""


async def forget_time(tx: Tx, now: datetime) -> None:
    """Fill no bucket for the time until `now`, and look again at all that wait for a token: the clock was set."""
    await lock_limits(tx)
    sqlite = "UPDATE limit_tokens SET filled_at = ?, opens_at = CASE WHEN opens_at IS NULL THEN NULL ELSE ? END"
    postgres = """
    UPDATE limit_tokens SET filled_at = $1, opens_at = CASE WHEN opens_at IS NULL THEN NULL ELSE $2::timestamptz END
    """
    if isinstance(tx.connection, InlineConnection):
        tx.connection.run_many(sqlite, [(micros(now), micros(now))])
    else:
        await cast("DirectConnection", tx.connection).change(postgres, (now, now))


async def due_buckets(tx: Tx, now: datetime, most: int) -> list[Place]:
    """Return up to `most` of the buckets that lines wait for and that have a token by now."""
    text = "SELECT limit_num, bucket FROM limit_tokens WHERE opens_at <= {} ORDER BY opens_at LIMIT {}"
    rows = await fetch(tx, text.format("?", "?"), text.format("$1", "$2"), _at(tx, now), most)
    return [Place(*row) for row in rows]


async def call_awaited(tx: Tx, limit: Limit, now: datetime) -> None:
    """Have it be time for all of the limit's buckets that lines wait for; one that has no tokens noted yet is full."""
    text = """
    INSERT INTO limit_tokens (bucket, limit_num, tokens, filled_at, opens_at)
    SELECT DISTINCT bucket, limit_num, {}, {}, {} FROM limit_lines WHERE limit_num = {}
        ON CONFLICT (bucket) DO UPDATE SET opens_at = excluded.opens_at
    """
    values = (float(limit.rate_burst or 0), _at(tx, now), _at(tx, now), limit.num)
    if isinstance(tx.connection, InlineConnection):
        tx.connection.run_many(text.format("?", "?", "?", "?"), [values])
    else:
        kinds = ("$1::float8", "$2::timestamptz", "$3::timestamptz", "$4::bigint")
        await cast("DirectConnection", tx.connection).change(text.format(*kinds), values)


async def awaited_buckets(tx: Tx, num: int, most: int) -> list[Place]:
    """Return up to `most` of the limit's buckets that lines wait for."""
    text = "SELECT DISTINCT limit_num, bucket FROM limit_lines WHERE limit_num = {} LIMIT {}"
    return [Place(*row) for row in await fetch(tx, text.format("?", "?"), text.format("$1", "$2"), num, most)]


# What runs count for


async def insert_uses(tx: Tx, uses: Iterable[tuple[int, int, Place, int]]) -> None:
    """Keep what runs count for, each as (task's number, run, place, weight); the place says which limit and bucket."""
    rows = [(seq, run, place.bucket, place.num, weight) for seq, run, place, weight in uses]
    if not rows:
        return
    if isinstance(tx.connection, InlineConnection):
        tx.connection.run_many(_USE.format("VALUES (?, ?, ?, ?, ?)"), rows)
        return
    arrays = "SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[], $5::int[])"
    columns = [list(column) for column in zip(*rows, strict=True)]
    await cast("DirectConnection", tx.connection).change(_USE.format(arrays), columns)


_USE = "INSERT INTO limit_uses (task_seq, run_id, bucket, limit_num, weight) {0}"


async def delete_ended_uses(tx: Tx, seqs: Collection[int]) -> set[Place]:
    """Forget what runs of the tasks count for that are neither open nor held any more; return where room came of it."""
    if not seqs:
        return set()
    if tx.dialect == "sqlite":
        return {Place(*row) for row in await fetch(tx, _ENDED, "", sorted(seqs))}
    leased = [str(status) for status in LEASED]
    return {Place(*row) for row in await fetch(tx, "", _PG_ENDED, sorted(seqs), leased)}


_LEASED = ", ".join(f"'{status}'" for status in sorted(LEASED))
_ENDED = f"""
DELETE FROM limit_uses
 WHERE task_seq IN (SELECT value FROM json_each(?))
   AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.seq = task_seq AND t.run_id = limit_uses.run_id
                      AND t.status IN ({_LEASED}))
   AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.task_seq = limit_uses.task_seq AND h.run_id = limit_uses.run_id)
RETURNING limit_num, bucket
"""  # noqa: S608 - made of constants
_PG_ENDED = """
DELETE FROM limit_uses u
 WHERE u.task_seq = ANY ($1::bigint[])
   AND (SELECT 1 FROM tasks t WHERE t.seq = ANY (ARRAY[u.task_seq]) AND t.run_id = u.run_id
           AND t.status = ANY ($2::text[]) LIMIT 1) IS NULL
   AND (SELECT 1 FROM holds h WHERE h.task_seq = ANY (ARRAY[u.task_seq]) AND h.run_id = u.run_id LIMIT 1) IS NULL
RETURNING u.limit_num, u.bucket
"""


# Lines

IN_LINE = "{0}limit_key IS NOT NULL AND {0}status = 'pending' AND ({0}parked OR NOT {0}blocked)"
"""Tasks that nothing but a limit keeps, as the index of lines says it; given the prefix of the table's columns."""

_FIRST = f"""
SELECT t.lane, t.limit_key, t.seq, t.limits, -t.priority, t.due_at
  FROM json_each(?) l CROSS JOIN tasks t
 WHERE t.seq IN (SELECT i.seq FROM tasks i
                  WHERE lane = l.value ->> 0 AND limit_key = l.value ->> 1 AND {IN_LINE.format("")}
                  ORDER BY priority DESC, due_at, seq LIMIT ?)
 ORDER BY t.lane, t.limit_key, t.priority DESC, t.due_at, t.seq
"""  # noqa: S608 - made of constants
_PG_FIRST = f"""
SELECT l.lane, l.limit_key, t.*
  FROM unnest($1::bigint[], $2::text[]) AS l (lane, limit_key)
 CROSS JOIN LATERAL (
       SELECT seq, limits::text, -priority, due_at FROM tasks
        WHERE tasks.lane = l.lane AND tasks.limit_key = l.limit_key AND {IN_LINE.format("tasks.")}
        ORDER BY priority DESC, due_at, seq LIMIT $3 {{}}) t
"""  # noqa: S608 - likewise
_OPEN = """
SELECT t.seq FROM json_each(?) l CROSS JOIN tasks t
 WHERE t.lane = l.value ->> 0 AND t.limit_key = l.value ->> 1
   AND t.limit_key IS NOT NULL AND t.status = 'pending' AND NOT t.blocked
"""
_PG_OPEN = """
SELECT t.seq FROM unnest($1::bigint[], $2::text[]) AS l (lane, limit_key)
 CROSS JOIN LATERAL (
       SELECT seq FROM tasks WHERE tasks.lane = l.lane AND tasks.limit_key = l.limit_key
          AND tasks.limit_key IS NOT NULL AND tasks.status = 'pending' AND NOT tasks.blocked {}) t
"""


def _lock(tx: Tx) -> str:
    return "" if tx.is_exclusive else "FOR UPDATE SKIP LOCKED"


def _lines(tx: Tx, lines: Collection[Line]) -> list[Any]:
    """Return the lines as they are bound: one JSON list, or two arrays."""
    if tx.dialect == "sqlite":
        return [[list(line) for line in lines]]
    return [[line.lane for line in lines], [line.limit_key for line in lines]]


async def first_in_lines(tx: Tx, lines: Collection[Line], most: int) -> dict[Line, list[Waiting]]:
    """Return up to `most` of each line's tasks, in its order, that nothing but a limit keeps."""
    found: dict[Line, list[Waiting]] = {line: [] for line in lines}
    for lane, key, *task in await fetch(tx, _FIRST, _PG_FIRST.format(_lock(tx)), *_lines(tx, lines), most):
        found[Line(lane, key)].append(Waiting(*task))
    return found


async def claimable_in_lines(tx: Tx, lines: Collection[Line]) -> set[int]:
    """Return the numbers of the lines' tasks that may be claimed."""
    if not lines:
        return set()
    return {seq for (seq,) in await fetch(tx, _OPEN, _PG_OPEN.format(_lock(tx)), *_lines(tx, lines))}


_LEFT = f"""
SELECT l.lane, l.limit_key, t.*
  FROM unnest($1::bigint[], $2::text[]) AS l (lane, limit_key)
 CROSS JOIN LATERAL (
       SELECT seq, limits::text, -priority, due_at FROM tasks
        WHERE tasks.lane = l.lane AND tasks.limit_key = l.limit_key AND {IN_LINE.format("tasks.")} AND tasks.parked
        ORDER BY priority DESC, due_at, seq LIMIT 1) t
"""  # noqa: S608 - made of constants


async def left_in_lines(tx: Tx, lines: Collection[Line]) -> dict[Line, Waiting]:
    """Return the first of each line's tasks that wait for their limits, also one that another server has at hand."""
    if not lines or tx.is_exclusive or tx.dialect == "sqlite":
        return {}
    rows = await fetch(tx, "", _LEFT, *_lines(tx, lines))
    return {Line(lane, key): Waiting(*task) for lane, key, *task in rows}


async def set_parked(tx: Tx, seqs: Collection[int], *, parked: bool) -> set[int]:
    """Have pending tasks wait for their limits, or be claimable; return their lanes."""
    if not seqs:
        return set()
    value = "true" if parked else "false"
    change = "UPDATE tasks SET parked = {0}, blocked = {0} WHERE seq {1} AND status = {2} RETURNING lane"
    rows = await fetch(
        tx,
        change.format(value, "IN (SELECT value FROM json_each(?))", "?"),
        change.format(value, "= ANY ($1::bigint[])", "$2"),
        sorted(seqs),
        str(Status.PENDING),
    )
    return {lane for (lane,) in rows}


async def stand_in_line(tx: Tx, seqs: Collection[int]) -> None:
    """Let pending tasks without a target wait for their limits alone, unless the code of their last run goes on."""
    if not seqs:
        return
    kept = "(SELECT 1 FROM holds h WHERE h.task_seq = {} AND NOT h.slot_only LIMIT 1) IS NOT NULL"
    change = """
    UPDATE tasks SET parked = blocked AND NOT {0}, blocked = blocked OR {0}
     WHERE seq {1} AND limit_key IS NOT NULL AND target_num IS NULL AND status = {2} RETURNING seq
    """
    await fetch(
        tx,
        change.format(kept.format("tasks.seq"), "IN (SELECT value FROM json_each(?))", "?"),
        change.format(kept.format("ANY (ARRAY[tasks.seq])"), "= ANY ($1::bigint[])", "$2"),
        sorted(seqs),
        str(Status.PENDING),
    )


async def lines_of(tx: Tx, seqs: Collection[int]) -> set[Line]:
    """Return the lines, each a lane and a key, of those of the tasks that have limits."""
    if not seqs:
        return set()
    text = "SELECT lane, limit_key FROM tasks WHERE limit_key IS NOT NULL AND seq {}"
    sqlite, postgres = text.format("IN (SELECT value FROM json_each(?))"), text.format("= ANY ($1::bigint[])")
    rows = await fetch(tx, sqlite, postgres, sorted(seqs))
    return {Line(*row) for row in rows}


async def write_parked(tx: Tx, lines: Collection[Line], parked: Sequence[Parked]) -> None:
    """Note which of the lines wait, and for what; the others do not."""
    if tx.dialect == "sqlite":
        connection = cast("InlineConnection", tx.connection)
        connection.run_many("DELETE FROM limit_lines WHERE lane = ? AND limit_key = ?", list(lines))
    else:
        await cast("DirectConnection", tx.connection).change(_PG_UNPARK, _lines(tx, lines))
    rows = [(*p.line, p.place.bucket, p.place.num, p.first.rank, p.first.due_at, p.first.seq) for p in parked]
    if not rows:
        return
    into = "INSERT INTO limit_lines (lane, limit_key, bucket, limit_num, rank, due_at, seq) {}"
    if tx.dialect == "sqlite":
        cast("InlineConnection", tx.connection).run_many(into.format("VALUES (?, ?, ?, ?, ?, ?, ?)"), rows)
        return
    kinds = ("bigint", "text", "bigint", "bigint", "int", "timestamptz", "bigint")
    arrays = ", ".join(f"${i}::{kind}[]" for i, kind in enumerate(kinds, 1))
    columns = [list(column) for column in zip(*rows, strict=True)]
    select = f"SELECT * FROM unnest({arrays})"  # noqa: S608 - numbers and kinds
    await cast("DirectConnection", tx.connection).change(into.format(select), columns)


_PG_UNPARK = """
DELETE FROM limit_lines USING unnest($1::bigint[], $2::text[]) AS l (lane, limit_key)
 WHERE limit_lines.lane = ANY (ARRAY[l.lane]) AND limit_lines.limit_key = ANY (ARRAY[l.limit_key])
"""


async def waiting_for(tx: Tx, buckets: Collection[int], most: int) -> tuple[dict[Line, int], set[int]]:
    """Return the first `most` lines of each lane that wait for each of the buckets, and the buckets with more."""
    text = """
    SELECT lane, limit_key, bucket, place
      FROM (SELECT lane, limit_key, bucket,
                   row_number() OVER (PARTITION BY bucket, lane ORDER BY rank, due_at, seq) AS place
              FROM limit_lines WHERE bucket {}) AS waiting
     WHERE place <= {}
    """
    rows = await fetch(
        tx,
        text.format("IN (SELECT value FROM json_each(?))", "?"),
        text.format("= ANY ($1::bigint[])", "$2"),
        sorted(buckets),
        most + 1,
    )
    lines = {Line(lane, key): bucket for lane, key, bucket, place in rows if place <= most}
    return lines, {bucket for _, _, bucket, place in rows if place > most}

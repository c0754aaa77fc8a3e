"""The writer's reads and writes of limits' buckets, and of what runs use of them.

Each is one statement for any number of rows. On PostgreSQL a row is looked up along an index, whatever statistics the
planner has: see `hot.py`.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import bindparam, case, delete, literal, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from treadle.wire.status import LEASED
from treadle_server.domain.limits import LIMIT_FIELDS, Bucket, BucketId, Limit, filled_until
from treadle_server.store.base import ClockWasSet, Overtaken, Tx
from treadle_server.store.bound_lists import is_among, is_same
from treadle_server.store.postgres.changes import Part
from treadle_server.store.prepared import Prepared, Rows
from treadle_server.store.tables import holds, limit_lines, limit_tokens, limit_uses, limits, meta, tasks
from treadle_server.store.transaction.postponed import postpone_beside
from treadle_server.store.transaction.rows import insert_tuples, put_meta
from treadle_server.store.types import Instant, instant

_KEY = 7421
"""The advisory lock under which a server decides about limits."""

_WAIT = "SELECT pg_advisory_xact_lock($1::bigint)"


async def fetch(tx: Tx, sqlite: str, postgres: str, *values: Any) -> Rows:
    """Run the database's statement and return its rows; a list is bound as an array, or as JSON on SQLite."""
    if tx.dialect == "sqlite":
        return tx.inline.fetch(sqlite, [_said(value) for value in values])
    return await tx.direct.fetch(postgres, values)


def _said(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, list) else value


async def lock_limits(tx: Tx) -> None:
    """Keep other servers from deciding about limits until the commit.

    With this lock a transaction waits for no task's row: rows that another server has locked are left to that server,
    which decides about their lines in its turn. Raises `ClockWasSet` when another server has noted that the clock was
    set and this transaction's time is from before that: with it, buckets would be filled for the length of the step.
    """
    noticed = tx.noticed
    if tx.is_exclusive or noticed.is_sure:
        return
    if tx.dialect == "postgresql":
        await tx.direct.fetch(_WAIT, (_KEY,))
    # A separate statement, because the one that waited for the lock sees only what was committed before it began.
    set_by = await read_set_by(tx)
    if noticed.set_by not in {None, set_by}:
        raise ClockWasSet("another server has noticed that the clock was set")
    noticed.set_by, noticed.is_sure = set_by, True


_TURNS = 7422
"""The advisory lock by which servers take turns in inserting tasks that supersede others, or that may be rejected."""


async def go_first(tx: Tx) -> None:
    """Keep other servers from inserting such tasks until the commit.

    A transaction takes this lock first: while it waits for others to commit, it holds nobody up.
    """
    if not tx.is_exclusive:
        await tx.direct.fetch(_WAIT, (_TURNS,))


async def take_turn(tx: Tx) -> None:
    """Make other servers' `go_first` wait until the commit. Raises `Overtaken` at once if one has the lock."""
    statement = "SELECT pg_try_advisory_xact_lock_shared($1::bigint)"
    [(is_had,)] = await tx.direct.fetch(statement, (_TURNS,))
    if not is_had:
        raise Overtaken("another server is entering what counts against the limits")


_SET_BY = "clock_set_by"
"""The key in `meta` for the sum of the steps of the store's clock, in seconds, that servers have noticed."""


async def read_set_by(tx: Tx) -> float:
    """Return the sum of the noted steps of the store's clock, in seconds."""
    rows = await _set_by.rows(tx)
    return float(rows[0][0]) if rows else 0.0


_set_by = Prepared(select(meta.c.value).where(meta.c.key == _SET_BY))


async def note_set_by(tx: Tx, seconds: float) -> None:
    """Write the sum of the steps of the store's clock, in seconds, under the limits' lock."""
    await put_meta(tx, _SET_BY, repr(seconds))


_COLUMNS = ", ".join(LIMIT_FIELDS)


def limit_of(row: Sequence[Any]) -> Limit:
    """Return the limit of a row."""
    limit = Limit(*row)
    if isinstance(limit.created_at, int):
        limit.created_at = instant(limit.created_at)
    return limit


_LIMITS = select(*(limits.c[name] for name in LIMIT_FIELDS)).where(is_among(limits.c.num, "nums"))
_limits = Prepared(_LIMITS)
_locked = {
    to_change: Prepared(_LIMITS.order_by(limits.c.num).with_for_update(read=not to_change))
    for to_change in (False, True)
}


async def limits_by_num(tx: Tx, nums: Collection[int]) -> list[Limit]:
    """Return those of the limits that there are."""
    return [limit_of(row) for row in await _limits.rows(tx, nums=nums)]


async def locked_limits(tx: Tx, nums: Collection[int], *, to_change: bool) -> list[Limit]:
    """Return the limits that exist. They can't change until the commit; `to_change` locks them for this writer."""
    statement = _limits if tx.is_exclusive else _locked[to_change]
    return [limit_of(row) for row in await statement.rows(tx, nums=nums)]


async def read_buckets(tx: Tx, bucket_ids: Collection[BucketId], now: datetime) -> dict[int, Bucket]:
    """Return the state `now` of the buckets whose limits exist."""
    known, used = await _limits_and_uses(tx, bucket_ids)
    full = {num: float(limit.rate_burst or 0) for num, limit in known.items()}
    found = {bucket: Bucket(known[num], 0, full[num]) for num, bucket in bucket_ids if num in known}
    for bucket, weight in used:
        if bucket in found:
            found[bucket].used = weight
    wanted = [bucket for bucket, one in found.items() if one.limit.rate_count is not None]
    for bucket, tokens, filled_at, opens_at in await _tokens.rows(tx, buckets=wanted):
        one = found[bucket]
        since = instant(filled_at) if isinstance(filled_at, int) else filled_at
        one.tokens, one.filled_at = one.limit.filled(tokens, since, now), filled_until(since, now)
        one.is_waited_for = opens_at is not None
    return found


async def _limits_and_uses(
    tx: Tx, bucket_ids: Collection[BucketId]
) -> tuple[dict[int, Limit], Iterable[tuple[int, int]]]:
    """Return the limits that exist, and the weights used of the buckets that are in use."""
    nums, buckets = {one.num for one in bucket_ids}, {one.bucket for one in bucket_ids}
    used: Iterable[Any] = ()
    if tx.dialect == "sqlite":
        known = [limit_of(row) for row in tx.inline.fetch_together(_OF_NUMS, (), [(num,) for num in nums])]
        if any(limit.concurrency is not None for limit in known):
            used = tx.inline.fetch_together(_USED, (), [(bucket,) for bucket in buckets])
    else:
        rows = await tx.direct.fetch(_PG_LIMITS_AND_USES, (sorted(nums), list(buckets))) if nums else ()
        known = [limit_of(row[:-2]) for row in rows]
        used = zip(rows[0][-2], rows[0][-1], strict=True) if rows else ()
    return {limit.num: limit for limit in known}, used


# For fifty buckets this takes 5 microseconds, and took 20 with the numbers as one JSON text; reading their limit took
# 20 more.
_OF_NUMS = f"SELECT {_COLUMNS} FROM {{rows}} AS v CROSS JOIN limits ON num = v.column1"  # noqa: S608 - names of columns
_USED = """
SELECT bucket, sum(weight) FROM {rows} AS v CROSS JOIN limit_uses ON bucket = v.column1 GROUP BY bucket
"""
# One statement, because each round trip takes 0.1 ms; it repeats the uses for each of the limits, which are few.
_PG_LIMITS_AND_USES = f"""
WITH used AS MATERIALIZED (
     SELECT bucket, sum(weight) AS weight FROM limit_uses WHERE bucket = ANY ($2::bigint[]) GROUP BY bucket)
SELECT {_COLUMNS}, ARRAY(SELECT bucket FROM used ORDER BY bucket), ARRAY(SELECT weight FROM used ORDER BY bucket)
  FROM limits WHERE num = ANY ($1::bigint[])
"""  # noqa: S608 - names of columns
_t = limit_tokens.c
_tokens = Prepared(select(_t.bucket, _t.tokens, _t.filled_at, _t.opens_at).where(is_among(_t.bucket, "buckets")))


async def write_tokens(tx: Tx, buckets: dict[int, Bucket], now: datetime) -> None:
    """Write how many tokens each bucket has `now`, and when a line that waits for one may go on."""
    rows = [
        (number, one.limit.num, one.tokens, one.filled_at or now, one.opens_at(now))
        for number, one in sorted(buckets.items())
    ]
    await insert_tuples(tx, limit_tokens, ("bucket", "limit_num", "tokens", "filled_at", "opens_at"), rows, _FILL)


_FILL = """
ON CONFLICT (bucket)
DO UPDATE SET tokens = excluded.tokens, filled_at = excluded.filled_at, opens_at = excluded.opens_at
"""


async def forget_full(tx: Tx, bucket_ids: Collection[BucketId], at: datetime) -> None:
    """Delete the rows of the buckets that were full `at` this time and that no line waits for."""
    await lock_limits(tx)
    found = await read_buckets(tx, bucket_ids, at)
    full = [
        number
        for number, one in found.items()
        if not one.is_waited_for and (one.limit.rate_count is None or one.tokens >= (one.limit.rate_burst or 0))
    ]
    await _full.rows(tx, buckets=full)


_full = Prepared(delete(limit_tokens).where(is_among(_t.bucket, "buckets"), _t.opens_at.is_(None)).returning(_t.bucket))


async def forget_time(tx: Tx, now: datetime) -> None:
    """After the clock was set: fill no bucket for the time until `now`, and check all that lines wait for."""
    opens_at = case((_t.opens_at.is_not(None), literal(now, _t.opens_at.type)))
    await tx.connection.execute(update(limit_tokens).values(filled_at=now, opens_at=opens_at))


async def due_buckets(tx: Tx, now: datetime, most: int) -> list[BucketId]:
    """Return up to `most` of the buckets that lines wait for and that are due to have a token `now`."""
    return [BucketId(*row) for row in await _due.rows(tx, now=now, most=most)]


_due = Prepared(
    select(_t.limit_num, _t.bucket)
    .where(_t.opens_at <= bindparam("now"))
    .order_by(_t.opens_at)
    .limit(bindparam("most", literal_execute=False))
)


async def call_awaited(tx: Tx, limit: Limit, now: datetime) -> None:
    """Make all buckets of the limit that lines wait for due `now`; one without a row is full."""
    at, burst = literal(now, Instant), literal(float(limit.rate_burst or 0), _t.tokens.type)
    lines = select(limit_lines.c.bucket, limit_lines.c.limit_num, burst, at, at)
    insert = (sqlite if tx.dialect == "sqlite" else postgresql).insert(limit_tokens)
    called = insert.from_select(limit_tokens.c.keys(), lines.where(limit_lines.c.limit_num == limit.num).distinct())
    again = called.on_conflict_do_update(index_elements=["bucket"], set_={"opens_at": insert.excluded.opens_at})
    await tx.connection.execute(again)


async def awaited_buckets(tx: Tx, num: int, most: int) -> list[BucketId]:
    """Return up to `most` of the limit's buckets that lines wait for."""
    named = select(limit_lines.c.limit_num, limit_lines.c.bucket).where(limit_lines.c.limit_num == num)
    return [BucketId(*row) for row in await tx.connection.execute(named.distinct().limit(most))]


# What runs count for


async def insert_uses(tx: Tx, rows: Sequence[tuple[int, int, int, int, int]]) -> None:
    """Insert uses of runs, as (task's number, run, limit's number, bucket, weight).

    On PostgreSQL they are written in one statement with the runs' claims. Raises `LostUpdate` as that does.
    """
    if not rows:
        return
    if tx.dialect == "sqlite":
        tx.inline.run_together(_USE.format("SELECT * FROM {rows}"), (), rows)
        return
    arrays = "SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[], $5::int[])"
    columns = [list(column) for column in zip(*rows, strict=True)]
    await postpone_beside(tx, Part("used", _USE.format(arrays), tuple(columns), len(rows)))


_USE = "INSERT INTO limit_uses (task_seq, run_id, limit_num, bucket, weight) {0}"


async def delete_ended_uses(tx: Tx, seqs: Collection[int]) -> set[BucketId]:
    """Delete the uses of the tasks' runs that are neither open nor held; return the buckets that gained room."""
    return {BucketId(*row) for row in await _ended.rows(tx, seqs=sorted(seqs))}


_u = limit_uses.c
_OPEN = select(tasks.c.seq).where(
    is_same(tasks.c.seq, _u.task_seq),
    tasks.c.run_id == _u.run_id,
    or_(*(tasks.c.status == status.value for status in sorted(LEASED))),
)
_HELD = select(holds.c.task_seq).where(is_same(holds.c.task_seq, _u.task_seq), holds.c.run_id == _u.run_id)
_ended = Prepared(
    delete(limit_uses)
    .where(
        is_among(_u.task_seq, "seqs"),
        # Scalar subqueries are looked up for each row; for a NOT EXISTS PostgreSQL may read the whole table.
        *(found.limit(1).correlate(limit_uses).scalar_subquery().is_(None) for found in (_OPEN, _HELD)),
    )
    .returning(_u.limit_num, _u.bucket)
)

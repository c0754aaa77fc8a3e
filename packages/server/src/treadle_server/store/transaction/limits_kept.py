"""Limits themselves, as the writer reads and writes them, and who names them."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import cast

import orjson
from sqlalchemy import delete, or_, select

from treadle_server.domain.limits import APART, LIMIT_FIELDS, BucketId, Limit, number_of
from treadle_server.store.base import LostUpdate, Tx
from treadle_server.store.postgres.connection import DirectConnection
from treadle_server.store.sqlite.writer import InlineConnection
from treadle_server.store.tables import jobs, limit_lines, limit_tokens, limit_uses, limits, tasks
from treadle_server.store.transaction.limit_rows import (
    awaited_buckets,
    call_awaited,
    limits_by_num,
    lock_limits,
    locked_limits,
)
from treadle_server.store.transaction.rows import insert_objects
from treadle_server.store.types import micros

LimitName = tuple[str, str]
"""A limit's room and name."""


async def limits_by_name(tx: Tx, names: Collection[LimitName], *, to_change: bool) -> dict[LimitName, Limit]:
    """Return those of the limits that there are, locked as in `locked_limits`."""
    found = await locked_limits(tx, {number_of(*name) for name in names}, to_change=to_change)
    return {(limit.room, limit.name): limit for limit in found}


async def named_limits(tx: Tx, known: Iterable[Limit]) -> set[LimitName]:
    """Return which of the `known` limits open tasks or jobs name, or code counts against that has not stopped yet."""
    return {(limit.room, limit.name) for limit in known if await _is_named(tx, limit)}


async def _is_named(tx: Tx, limit: Limit) -> bool:
    begins = f"{limit.num}:%"
    open_task = (
        select(tasks.c.seq)
        .where(
            tasks.c.limit_key.is_not(None),
            tasks.c.completed_at.is_(None),
            or_(tasks.c.limit_key.like(begins), tasks.c.limit_key.like(f"% {begins}")),
        )
        .limit(1)
    )
    if (await tx.connection.execute(open_task)).first() is not None:
        return True
    # Made anew it would be the same limit, and have forgotten what still runs.
    used = select(limit_uses.c.bucket).where(limit_uses.c.limit_num == limit.num).limit(1)
    if (await tx.connection.execute(used)).first() is not None:
        return True
    named = select(jobs.c.defaults).where(jobs.c.room == limit.room, jobs.c.deleted_at.is_(None))
    return any(limit.name in _names(text) for text in (await tx.connection.execute(named)).scalars())


def _names(defaults: str) -> set[str]:
    return {one["name"] for one in orjson.loads(defaults).get("limits") or ()}


_CHANGED = f"ON CONFLICT (num) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in LIMIT_FIELDS)}"

MOST_AWAITED = 500
"""Buckets of changed limits about which the same transaction decides; later ones decide about the others."""


async def write_limits(tx: Tx, changed: Iterable[Limit], gone: Collection[int], now: datetime) -> set[BucketId]:
    """Write limits that were made or changed, and delete others by their numbers, with all that was counted of them.

    Return buckets that lines wait for; of more than `MOST_AWAITED` it is time for the others, too. No other server
    decides about limits until the commit: it would count by what they were. Raises `LostUpdate` when one is to go that
    was named by what another server has written since it was looked at.
    """
    await lock_limits(tx)
    if not tx.is_exclusive and await named_limits(tx, await limits_by_num(tx, gone)):
        raise LostUpdate("a limit that is to go is named meanwhile")
    awaited: list[BucketId] = []
    changed = list(changed)
    before = {limit.num: limit for limit in await limits_by_num(tx, {limit.num for limit in changed})}
    for limit in changed:
        if limit.num in before:
            await _keep_tokens(tx, before[limit.num], limit, now)
        await insert_objects(tx, [limit], _CHANGED)
        await call_awaited(tx, limit, now)
        awaited += await awaited_buckets(tx, limit.num, MOST_AWAITED)
    await _delete_limits(tx, gone)
    return set(awaited[:MOST_AWAITED])


async def _keep_tokens(tx: Tx, before: Limit, limit: Limit, now: datetime) -> None:
    """Fill all buckets by the rate that there was until `now`: what comes fills by the new one.

    They keep as much as that allows; those that were full are, and so are all where there was no rate. One that another
    server's look at the clock has filled a moment further stays so.
    """
    if (before.per_second, before.rate_burst) == (limit.per_second, limit.rate_burst):
        return
    burst = float(limit.rate_burst or 0)
    full = min(burst, float(before.rate_burst or 0) - _LOST)
    ahead = now if before.rate_count is None else now + timedelta(seconds=APART)
    if isinstance(tx.connection, InlineConnection):
        passed = "max(0, ? - filled_at) / 1e6"
        fill, cut = _FILL.format("?", passed, "?", "?", "?", "?"), _CUT.format("?", "?", "?")
        values = (before.per_second, micros(now), micros(now), limit.num, micros(now), micros(ahead))
        tx.connection.run_many(fill, [values])
        tx.connection.run_many(cut, [(burst, limit.num, full)])
        return
    connection = cast("DirectConnection", tx.connection)
    passed = "greatest(0, extract(epoch FROM $2::timestamptz - filled_at)::float8)"
    fill = _FILL.format("$1::float8", passed, "$2", "$3::bigint", "$2", "$4::timestamptz")
    await connection.change(fill, (before.per_second, now, limit.num, ahead))
    cut = _CUT.format("$1::float8", "$2::bigint", "$3::float8")
    await connection.change(cut, (burst, limit.num, full))


_FILL = """
UPDATE limit_tokens SET tokens = tokens + {} * {}, filled_at = {}
 WHERE limit_num = {} AND (filled_at <= {} OR filled_at > {})
"""
_CUT = "UPDATE limit_tokens SET tokens = {} WHERE limit_num = {} AND tokens >= {}"
_LOST = 1e-9
"""Of a token, what sums of parts lose."""


async def _delete_limits(tx: Tx, nums: Collection[int]) -> None:
    for num in sorted(nums):
        for table in (limit_lines, limit_tokens, limit_uses):
            await tx.connection.execute(delete(table).where(table.c.limit_num == num))
        await tx.connection.execute(delete(limits).where(limits.c.num == num))

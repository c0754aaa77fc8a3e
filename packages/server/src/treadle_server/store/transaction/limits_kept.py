"""The writer's reads and writes of limits, and what refers to them."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import orjson
from sqlalchemy import Double, delete, literal, or_, select, update

from treadle_server.domain.limits import APART, LIMIT_FIELDS, BucketId, Limit, number_of
from treadle_server.store.base import LostUpdate, Tx
from treadle_server.store.bound_lists import Spelt
from treadle_server.store.tables import jobs, limit_lines, limit_tokens, limit_uses, limits, tasks
from treadle_server.store.transaction.limit_rows import (
    awaited_buckets,
    call_awaited,
    limits_by_num,
    lock_limits,
    locked_limits,
)
from treadle_server.store.transaction.rows import insert_objects
from treadle_server.store.types import Instant

LimitName = tuple[str, str]
"""A limit's room and name."""


async def limits_by_name(tx: Tx, names: Collection[LimitName], *, to_change: bool) -> dict[LimitName, Limit]:
    """Return the limits that exist, locked as in `locked_limits`."""
    found = await locked_limits(tx, {number_of(*name) for name in names}, to_change=to_change)
    return {(limit.room, limit.name): limit for limit in found}


async def named_limits(tx: Tx, known: Iterable[Limit]) -> set[LimitName]:
    """Return which of the `known` limits are named by open tasks or jobs, or used by code that has not stopped."""
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
    # If it was removed and created again it would be the same limit, without the uses of what is still running.
    used = select(limit_uses.c.bucket).where(limit_uses.c.limit_num == limit.num).limit(1)
    if (await tx.connection.execute(used)).first() is not None:
        return True
    named = select(jobs.c.defaults).where(jobs.c.room == limit.room, jobs.c.deleted_at.is_(None))
    return any(limit.name in _names(text) for text in (await tx.connection.execute(named)).scalars())


def _names(defaults: str) -> set[str]:
    return {one["name"] for one in orjson.loads(defaults).get("limits") or ()}


_CHANGED = f"ON CONFLICT (num) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in LIMIT_FIELDS)}"

MOST_AWAITED = 500
"""Most buckets of changed limits that the same transaction decides about; later ones decide about the rest."""


async def write_limits(tx: Tx, changed: Iterable[Limit], gone: Collection[int], now: datetime) -> set[BucketId]:
    """Insert or update limits, and delete others by number, with their uses, tokens and lines.

    Return up to `MOST_AWAITED` buckets that lines wait for; all of them are made due. Other servers can't decide about
    limits until the commit, because they would use the old values. Raises `LostUpdate` when a limit to delete has come
    into use, by another server's writes, since it was checked.
    """
    await lock_limits(tx)
    if not tx.is_exclusive and await named_limits(tx, await limits_by_num(tx, gone)):
        raise LostUpdate("a limit that was to be removed is in use again")
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
    """Fill all buckets at the old rate until `now`; from then on they fill at the new one.

    Their tokens are capped by the new burst. Buckets that were full stay full, and without an old rate all become full.
    A bucket that another server's reading of the clock has filled slightly further keeps that time.
    """
    if (before.per_second, before.rate_burst) == (limit.per_second, limit.rate_burst):
        return
    burst = float(limit.rate_burst or 0)
    full = min(burst, float(before.rate_burst or 0) - _LOST)
    ahead = now if before.rate_count is None else now + timedelta(seconds=APART)
    c, of_limit = limit_tokens.c, update(limit_tokens).where(limit_tokens.c.limit_num == limit.num)
    tokens = c.tokens + before.per_second * _Passed(literal(now, Instant), c.filled_at)
    filled = of_limit.where(or_(c.filled_at <= now, c.filled_at > ahead)).values(tokens=tokens, filled_at=now)
    await tx.connection.execute(filled)
    await tx.connection.execute(of_limit.where(c.tokens >= full).values(tokens=burst))


class _Passed(Spelt):
    """Seconds from the second instant to the first, at least 0."""

    type = Double()
    sqlite = "(max(0, {0} - {1}) / 1e6)"
    postgresql = "greatest(0, extract(epoch FROM {0} - {1})::float8)"


_LOST = 1e-9
"""The part of a token that may be lost to rounding."""


async def _delete_limits(tx: Tx, nums: Collection[int]) -> None:
    for num in sorted(nums):
        for table in (limit_lines, limit_tokens, limit_uses):
            await tx.connection.execute(delete(table).where(table.c.limit_num == num))
        await tx.connection.execute(delete(limits).where(limits.c.num == num))

"""Limits with their use and waiting tasks, and the limit that a task waits for."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.names import SHARED_ROOMS
from treadle.wire.status import Status
from treadle_server.domain.limits import LIMIT_FIELDS, Limit, bucket_ids_of
from treadle_server.domain.tasks import Task
from treadle_server.domain.visibility import Visibility
from treadle_server.errors import LimitNotFound
from treadle_server.store.bound_lists import is_among, is_same
from treadle_server.store.read import limit_crowds
from treadle_server.store.read.limit_crowds import Crowds
from treadle_server.store.read.limit_keys import LimitView, name_busiest
from treadle_server.store.read.limit_starts import WaitingForBucket, starts
from treadle_server.store.read.visibility import seen_from, within
from treadle_server.store.tables import limit_lines, limit_tokens, limit_uses, limits, tasks

_COLUMNS = [limits.c[name] for name in LIMIT_FIELDS]


async def page(
    connection: AsyncConnection,
    *,
    room: str | None,
    visibility: Visibility | None = None,
    limit: int,
    offset: int = 0,
) -> tuple[list[LimitView], int]:
    """Return limits seen from `room` (its own and the shared rooms'; None: all), newest first, and how many there are.

    Each has its busiest keys, except limits of shared rooms when there is a `visibility`. Waiting tasks are counted up
    to a bound (`limit_crowds.py`).
    """
    where = (within(visibility, limits.c.room), seen_from(room, limits.c.room))
    total = (await connection.execute(select(func.count()).select_from(limits).where(*where))).scalar_one()
    order = (limits.c.created_at.desc(), limits.c.room, limits.c.name)
    rows = await connection.execute(select(*_COLUMNS).where(*where).order_by(*order).limit(limit).offset(offset))
    return await _named_views(connection, [Limit(*row) for row in rows], visibility), total


async def first(connection: AsyncConnection, most: int) -> list[LimitView]:
    """Return the `most` oldest limits, of all rooms, with exact counts of waiting tasks."""
    order = (limits.c.created_at, limits.c.room, limits.c.name)
    rows = await connection.execute(select(*_COLUMNS).order_by(*order).limit(most))
    return await _view(connection, [Limit(*row) for row in rows], await limit_crowds.all_of(connection))


async def get(connection: AsyncConnection, *, room: str, name: str, visibility: Visibility | None = None) -> LimitView:
    """Return the limit of a room, with its busiest keys as `page` does. Raises `LimitNotFound`."""
    row = (await connection.execute(select(*_COLUMNS).where(limits.c.room == room, limits.c.name == name))).first()
    if row is None:
        raise LimitNotFound(f"there is no limit {name!r} in room {room}")
    return (await _named_views(connection, [Limit(*row)], visibility))[0]


async def _named_views(
    connection: AsyncConnection, found: Collection[Limit], visibility: Visibility | None
) -> list[LimitView]:
    """Return the limits with their busiest keys.

    Keys of shared rooms' limits come from any room's payloads, so only users who can read all rooms see them.
    """
    views = await _view(connection, found, await limit_crowds.some_of(connection))
    await name_busiest(connection, [v for v in views if visibility is None or v.limit.room not in SHARED_ROOMS])
    return views


async def _view(connection: AsyncConnection, found: Collection[Limit], crowds: Crowds) -> list[LimitView]:
    views = {limit.num: LimitView(limit) for limit in found}
    if not views:
        return []
    uses = (
        select(
            limit_uses.c.limit_num,
            limit_uses.c.bucket,
            func.sum(limit_uses.c.weight),
            func.min(limit_uses.c.task_seq),
        )
        .where(limit_uses.c.limit_num.in_(sorted(views)))
        .group_by(limit_uses.c.limit_num, limit_uses.c.bucket)
    )
    for num, bucket, weight, seq in await connection.execute(uses):
        views[num].used += int(weight)
        one = views[num].bucket(bucket)
        one.used, one.of_run = int(weight), seq
    for limit_key, count in crowds.waiting.items():
        for bucket_id in bucket_ids_of(limit_key):
            if (view := views.get(bucket_id.num)) is not None:
                view.waiting += count
                one = view.bucket(bucket_id.bucket)
                one.waiting, one.of_line = one.waiting + count, limit_key
                one.is_capped = one.is_capped or limit_key in crowds.more
    for view in views.values():
        view.is_capped = crowds.is_cut or any(one.is_capped for one in view.buckets.values())
    return list(views.values())


_OPENS_AT = limit_tokens.c.opens_at
_NEXT_TOKEN = select(_OPENS_AT).where(_OPENS_AT.is_not(None)).order_by(_OPENS_AT).limit(1)


async def next_token(connection: AsyncConnection) -> datetime | None:
    """Return when the next bucket that lines wait for has a token; None when no line waits for one."""
    return (await connection.execute(_NEXT_TOKEN)).scalar()


class LimitWait(NamedTuple):
    """The limit that a task waits for."""

    named: str
    """Its name in `blocked_by`."""
    opens_at: datetime | None
    """When its rate will let the task start; None when that is unknown."""


_FULL = (
    select(limit_lines.c.bucket)
    .where(is_same(limit_lines.c.lane, tasks.c.lane), is_same(limit_lines.c.limit_key, tasks.c.limit_key))
    .limit(1)
    .scalar_subquery()
)
# Read again, because tasks known from commits may have been unparked since.
_PARKED = select(tasks.c.seq, _FULL).where(
    is_among(tasks.c.seq, "seqs"), tasks.c.status == Status.PENDING.value, tasks.c.parked
)


async def limit_waits(connection: AsyncConnection, found: Collection[Task]) -> dict[int, LimitWait]:
    """Return by `seq` the limit that each pending task among these waits for; others are left out."""
    limited = {task.seq: task for task in found if task.limit_key is not None and task.status is Status.PENDING}
    if not limited:
        return {}
    rows = (await connection.execute(_PARKED, {"seqs": limited})).all()
    opens_at = await starts(
        connection, [WaitingForBucket(limited[seq], bucket) for seq, bucket in rows if bucket is not None]
    )
    named = {seq: _named(limited[seq], bucket) for seq, bucket in rows}
    return {seq: LimitWait(name, opens_at.get(seq)) for seq, name in named.items() if name is not None}


def _named(task: Task, bucket: int | None) -> str | None:
    """Return the name of the task's limit with this bucket, or of its first limit if none has it."""
    told: list[dict[str, Any]] = orjson.loads(task.limits or "[]")
    if task.limit_key is None or not told:
        return None
    buckets = [one.bucket for one in bucket_ids_of(task.limit_key)]
    one = told[buckets.index(bucket)] if bucket in buckets else told[0]
    return f"limit:{one['room']}/{one['name']}" + ("" if one["key"] is None else f"={one['key']}")

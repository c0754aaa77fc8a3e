"""Limits with their use and who waits, and which of a task's limits it waits for."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import ColumnElement, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.names import SHARED_ROOMS
from treadle.wire.status import Status
from treadle_server.domain.limits import LIMIT_FIELDS, Limit, Line, places_of
from treadle_server.domain.tasks import Task
from treadle_server.domain.visibility import Visibility
from treadle_server.errors import LimitNotFound
from treadle_server.store.read.visibility import within
from treadle_server.store.tables import limit_lines, limit_uses, limits, tasks


@dataclass(slots=True)
class LimitView:
    """A limit as it is shown."""

    limit: Limit
    used: int = 0
    waiting: int = 0
    buckets: set[int] = field(default_factory=set)
    """Its keys that are in use or waited for."""


_COLUMNS = [limits.c[name] for name in LIMIT_FIELDS]


async def page(
    connection: AsyncConnection,
    *,
    room: str | None,
    visibility: Visibility | None = None,
    limit: int,
    offset: int = 0,
) -> tuple[list[LimitView], int]:
    """Return the limits seen from `room` (its own and the shared rooms'; None: all), newest first, and how many."""
    where: list[ColumnElement[bool]] = [within(visibility, limits.c.room)]
    if room is not None:
        where.append(limits.c.room.in_(sorted({room, *SHARED_ROOMS})))
    total = (await connection.execute(select(func.count()).select_from(limits).where(*where))).scalar_one()
    order = (limits.c.created_at.desc(), limits.c.room, limits.c.name)
    rows = await connection.execute(select(*_COLUMNS).where(*where).order_by(*order).limit(limit).offset(offset))
    return await _view(connection, [Limit(*row) for row in rows]), total


async def first(connection: AsyncConnection, most: int) -> list[LimitView]:
    """Return the `most` limits that were made first, of all rooms."""
    order = (limits.c.created_at, limits.c.room, limits.c.name)
    rows = await connection.execute(select(*_COLUMNS).order_by(*order).limit(most))
    return await _view(connection, [Limit(*row) for row in rows])


async def get(connection: AsyncConnection, *, room: str, name: str) -> LimitView:
    """Return the limit of a room. Raises `LimitNotFound`."""
    row = (await connection.execute(select(*_COLUMNS).where(limits.c.room == room, limits.c.name == name))).first()
    if row is None:
        raise LimitNotFound(f"there is no limit {name!r} in room {room}")
    return (await _view(connection, [Limit(*row)]))[0]


async def _view(connection: AsyncConnection, found: Collection[Limit]) -> list[LimitView]:
    views = {limit.num: LimitView(limit) for limit in found}
    if not views:
        return []
    uses = (
        select(limit_uses.c.limit_num, limit_uses.c.bucket, func.sum(limit_uses.c.weight))
        .where(limit_uses.c.limit_num.in_(sorted(views)))
        .group_by(limit_uses.c.limit_num, limit_uses.c.bucket)
    )
    for num, bucket, weight in await connection.execute(uses):
        views[num].used += int(weight)
        views[num].buckets.add(bucket)
    for limit_key, count in (await _pending(connection)).items():
        for place in places_of(limit_key):
            if (view := views.get(place.num)) is not None:
                view.waiting += count
                view.buckets.add(place.bucket)
    return list(views.values())


async def _pending(connection: AsyncConnection) -> Mapping[str, int]:
    """Return how many tasks are pending that count against the same buckets: along an index of open ones alone."""
    statement = (
        select(tasks.c.limit_key, func.count())
        .where(tasks.c.limit_key.is_not(None), tasks.c.completed_at.is_(None), tasks.c.status == Status.PENDING.value)
        .group_by(tasks.c.limit_key)
    )
    found: Counter[str] = Counter()
    for limit_key, count in await connection.execute(statement):
        found[limit_key] = count
    return found


async def full_limits(connection: AsyncConnection, found: Collection[Task]) -> dict[int, str]:
    """Return by seq the limit that a pending task waits for, as `blocked_by` names it."""
    waiting = {
        task.seq: Line(task.lane, task.limit_key)
        for task in found
        if task.limit_key is not None and task.status is Status.PENDING and task.parked
    }
    if not waiting:
        return {}
    statement = select(limit_lines.c.lane, limit_lines.c.limit_key, limit_lines.c.bucket).where(
        tuple_(limit_lines.c.lane, limit_lines.c.limit_key).in_([tuple(line) for line in set(waiting.values())])
    )
    full = {Line(lane, key): bucket for lane, key, bucket in await connection.execute(statement)}
    by_seq = {task.seq: task for task in found if task.seq in waiting}
    return {seq: named for seq, line in waiting.items() if (named := _named(by_seq[seq], full.get(line))) is not None}


def _named(task: Task, bucket: int | None) -> str | None:
    """Return how the limit is called that has the bucket; of a task behind others in its line, the first one."""
    told: list[dict[str, Any]] = orjson.loads(task.limits or "[]")
    if task.limit_key is None or not told:
        return None
    places = [place.bucket for place in places_of(task.limit_key)]
    one = told[places.index(bucket)] if bucket in places else told[0]
    return f"limit:{one['room']}/{one['name']}" + ("" if one["key"] is None else f"={one['key']}")

"""Submits as rows of the outbox, written within the caller's own transaction."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Connection, Table, insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from treadle import tracing
from treadle.client.bound import Bound, Submittable
from treadle.client.items import checked_bounds, item_of, over
from treadle.client.options import Options
from treadle.client.sealing import sealed_item
from treadle.encryption.keys import codec_of
from treadle.encryption.sealer import Sealer
from treadle.errors import InvalidArguments
from treadle.outbox.rows import utc_now
from treadle.outbox.table import TABLE
from treadle.settings import Settings
from treadle.values import encoded
from treadle.wire.ids import TaskId
from treadle.wire.names import GLOBAL, InvalidRoom, parse_room

if TYPE_CHECKING:
    from treadle.encryption.codec import Codec

_ASYNC = (AsyncConnection, AsyncSession, async_scoped_session)
_SYNC = (Connection, Session, scoped_session)

Async: TypeAlias = AsyncConnection | AsyncSession | async_scoped_session[Any]
Sync: TypeAlias = Connection | Session | scoped_session[Any]


async def submit(
    connection: Async,
    bound: Bound[Any],
    *,
    options: Options | None = None,
    room: str | None = None,
    codec: "Codec | None" = None,
    table: Table = TABLE,
) -> TaskId:
    """Write `task.bind(…)` to the outbox, in the transaction of an async connection or session, and return its id.

    The server is not asked; it checks the submit when the row is handed over. `options` override the bound ones; a
    `delay` counts from now. `room` is the room that it is submitted from: by default `TREADLE_ROOM`, or else the task's
    own. An encrypted task is encrypted in the row, by `codec` or the keys of the environment. Raises
    `InvalidArguments`, `NoCodec` without such keys, and what the database raises.
    """
    return (await submit_many(connection, [bound], options=options, room=room, codec=codec, table=table))[0]


async def submit_many(
    connection: Async,
    bounds: Iterable[Bound[Any]],
    *,
    options: Options | None = None,
    room: str | None = None,
    codec: "Codec | None" = None,
    table: Table = TABLE,
) -> list[TaskId]:
    """Write many tasks, in this order, and return their ids. Raises `InvalidArguments` and `NoCodec`, as `submit`."""
    if not isinstance(connection, _ASYNC):
        raise InvalidArguments(_wrong(connection, "an async connection or session", "submit_sync"))
    rows = _rows(bounds, options, room, _sealer(codec))
    if rows:
        await connection.execute(insert(table), rows)
    return [row["id"] for row in rows]


# Stands twice: type checkers, editors and help() show each function's parameters as written with it.
def submit_sync(
    connection: Sync,
    bound: Bound[Any],
    *,
    options: Options | None = None,
    room: str | None = None,
    codec: "Codec | None" = None,
    table: Table = TABLE,
) -> TaskId:
    """Write a task as `submit` does, in the transaction of a connection or session that is not async."""
    return submit_many_sync(connection, [bound], options=options, room=room, codec=codec, table=table)[0]


# Stands twice: as above, and nothing is awaited here.
def submit_many_sync(
    connection: Sync,
    bounds: Iterable[Bound[Any]],
    *,
    options: Options | None = None,
    room: str | None = None,
    codec: "Codec | None" = None,
    table: Table = TABLE,
) -> list[TaskId]:
    """Write many tasks as `submit_many` does, in the transaction of a connection or session that is not async.

    Raises `InvalidArguments` and `NoCodec`, as `submit` does.
    """
    if not isinstance(connection, _SYNC):
        raise InvalidArguments(_wrong(connection, "a connection or session that is not async", "await submit"))
    rows = _rows(bounds, options, room, _sealer(codec))
    if rows:
        connection.execute(insert(table), rows)
    return [row["id"] for row in rows]


def _wrong(given: object, wanted: str, other: str) -> str:
    return f"the outbox needs {wanted} of SQLAlchemy, not {given!r}; see also {other}"


def _rows(
    bounds: Iterable[Bound[Any]], options: Options | None, room: str | None, sealer: Sealer
) -> list[dict[str, Any]]:
    given = checked_bounds(bounds)
    items = [item_of(one.task.full_name, one.payload, over(options, one.options)) for one in given]
    # Encrypted now rather than when it is handed over: the row is in the user's database, and the relay needs no keys.
    items = [
        sealed_item(sealer, item, one.task) if one.task.encrypted else item
        for one, item in zip(given, items, strict=True)
    ]
    with tracing.submitting(items):
        return [_row(bound.task, item, room) for bound, item in zip(given, items, strict=True)]


def _row(task: Submittable, item: dict[str, Any], room: str | None) -> dict[str, Any]:
    body = {name: value for name, value in item.items() if name not in {"id", "job"}}
    if (delay := body.pop("delay", None)) is not None:
        # From now, not from when it is handed over.
        body["scheduled_at"] = (datetime.now(UTC) + timedelta(seconds=delay)).isoformat()
    return {
        "id": item["id"],
        "room": _usual_room() or task.job.room if room is None else _parsed(room),
        "job": item["job"],
        "body": _ascii(encoded(body)),
        "registration": _registration(task),  # type: ignore[arg-type] # a task is hashed as the object that it is
        "created_at": utc_now(),
    }


def _ascii(body: bytes) -> str:
    """Return JSON as text that every database can store, whatever its encoding."""
    return body.decode() if body.isascii() else json.dumps(json.loads(body))


@lru_cache(maxsize=1)
def _settings() -> Settings:
    """Return the settings, cached because reading the environment takes longer than writing the whole row."""
    return Settings()


def _parsed(room: str) -> str:
    try:
        return parse_room(room)
    except InvalidRoom as error:
        raise InvalidArguments(str(error)) from None


@lru_cache(maxsize=1)
def _usual_sealer() -> Sealer:
    return Sealer(codec_of(_settings()))


def _sealer(codec: "Codec | None") -> Sealer:
    return _usual_sealer() if codec is None else Sealer(codec)


def _usual_room() -> str | None:
    room = _settings().room
    return None if room == GLOBAL else room


@lru_cache(maxsize=1024)
def _registration(task: Submittable) -> str:
    return json.dumps({"room": task.job.room, **task.registration(_settings())})

"""Webhooks and their outbox: rows are written with the outcome, claimed for a while, and deleted on delivery."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import CTE, ColumnElement, ScalarSelect, Select, bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import Status
from treadle_server.domain.webhooks import Hook
from treadle_server.store.base import Tx
from treadle_server.store.tables import tasks, webhook_deliveries, webhooks
from treadle_server.store.transaction.owners import acts
from treadle_server.store.transaction.rows import update_tuples

_d = webhook_deliveries.c

PORTION = 500
"""How many webhooks are read before the event loop may do other work: some 5 ms."""

MOST_SAID = 500
"""Most characters of a failed try's error that are stored."""


class Owed(NamedTuple):
    """A new delivery of an outcome."""

    id: str
    webhook_id: str
    task_seq: int
    status: Status
    body: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that this server is trying; `attempts` includes this try, and fences it."""

    id: str
    webhook_id: str
    room: str
    name: str
    """The webhook's."""
    body: str
    attempts: int
    url: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of a failed try."""

    id: str
    attempts: int
    next_at: datetime | None
    """None means that the delivery is dead."""
    at: datetime
    answered: int | None
    error: str


async def mark(connection: AsyncConnection) -> tuple[Any, ...]:
    """Return what has changed if a webhook was added, changed or removed, unless the clock was set back."""
    return tuple((await connection.execute(select(func.count(), func.max(webhooks.c.updated_at)))).one())


async def hooks(connection: AsyncConnection) -> list[Hook]:
    """Return every webhook, in portions, so that the event loop may do other work."""
    columns = select(webhooks.c.id, webhooks.c.room, webhooks.c.jobs, webhooks.c.statuses)
    found: list[Hook] = []
    for some in (await connection.execute(columns)).partitions(PORTION):
        found += map(_hook, some)
        await asyncio.sleep(0)
    return found


def _hook(row: Any) -> Hook:
    return Hook(
        str(row.id),
        row.room,
        None if row.jobs is None else frozenset(orjson.loads(row.jobs)),
        frozenset(Status(status) for status in orjson.loads(row.statuses)),
    )


_NEW = ("id", "webhook_id", "task_seq", "status", "body", "created_at", "attempts", "next_at")
_PUT_IN = insert(webhook_deliveries).from_select(
    _NEW,
    select(*(bindparam(f"new_{name}", type_=_d[name].type).label(name) for name in _NEW)).where(
        # Another server may have deleted the webhook meanwhile: then nothing is inserted.
        webhooks.c.id == bindparam("of")
    ),
)


async def put_in(tx: Tx, owed: Sequence[Owed]) -> None:
    """Add deliveries to the outbox, in the transaction of their outcomes."""
    names = [f"new_{name}" for name in _NEW]
    values = [(one.id, one.webhook_id, one.task_seq, str(one.status), one.body, one.at, 0, one.at) for one in owed]
    rows = [{"of": row[1], **dict(zip(names, row, strict=True))} for row in values]
    await tx.connection.execute(_PUT_IN, rows)


def _owing() -> CTE:
    """Return the webhooks with waiting deliveries, each found in the index behind the one before it."""
    first = select(_d.webhook_id).where(_d.next_at.is_not(None)).order_by(_d.webhook_id).limit(1)
    owing = select(first.scalar_subquery().label("id")).cte("owing", recursive=True)
    following = first.where(_d.webhook_id > owing.c.id).correlate(owing).scalar_subquery()
    return owing.union_all(select(following).where(owing.c.id.is_not(None)))


def first_waiting(tokens_at: datetime | None) -> Select[Any]:
    """Return the statement of `waiting`."""
    owing = _owing()
    first = select(func.min(_d.next_at)).where(_d.webhook_id == webhooks.c.id, _d.next_at.is_not(None))
    return (
        select(webhooks.c.id, first.correlate(webhooks).scalar_subquery())
        .join_from(owing, webhooks, webhooks.c.id == owing.c.id)
        .where(acts(webhooks.c.owner, tokens_at))
    )


async def waiting(connection: AsyncConnection, *, tokens_at: datetime | None = None) -> dict[str, datetime]:
    """Return by webhook when the first of its waiting deliveries is to be tried.

    Webhooks whose owner has no valid token at `tokens_at` are suspended, and left out. Those that have nothing waiting
    cost nothing: this is asked for each attempt that ends, and looking at all of 10,000 took the loop 0.06 s each time.
    """
    return {str(webhook_id): at for webhook_id, at in await connection.execute(first_waiting(tokens_at)) if at}


_DUE = (
    select(
        _d.id, _d.webhook_id, _d.body, _d.attempts, webhooks.c.room, webhooks.c.name, webhooks.c.url, webhooks.c.secret
    )
    .join_from(webhook_deliveries, webhooks, _d.webhook_id == webhooks.c.id)
    .where(_d.webhook_id == bindparam("of"), _d.next_at <= bindparam("now"))
    .order_by(_d.next_at)
    .limit(bindparam("most"))
    # Rows that another server has locked are left to it.
    .with_for_update(of=webhook_deliveries, skip_locked=True)
)


async def claim(tx: Tx, webhook_id: str, *, now: datetime, until: datetime, most: int) -> list[Claimed]:
    """Claim up to `most` due deliveries of a webhook; no other server tries them before `until`."""
    given = {"of": webhook_id, "now": now, "most": most}
    rows = (await tx.connection.execute(_DUE, given)).all()
    found = [
        Claimed(str(row.id), str(row.webhook_id), row.room, row.name, row.body, row.attempts + 1, row.url, row.secret)
        for row in rows
    ]
    taken = [(one.id, one.attempts, until) for one in found]
    await update_tuples(tx, webhook_deliveries, ("id",), ("attempts", "next_at"), taken)
    return found


async def delivered(tx: Tx, ids: Collection[str]) -> None:
    """Delete deliveries that their receivers have accepted."""
    if ids:
        await tx.connection.execute(delete(webhook_deliveries).where(_d.id.in_(sorted(ids))))


async def put_off(tx: Tx, tries: Sequence[Tried]) -> None:
    """Record failed tries, to be tried again later or dead, unless another server has taken the delivery over."""
    if not tries:
        return
    names = ("next_at", "dead_at", "answered", "error")
    rows = [
        {
            "_id": one.id,
            "_attempts": one.attempts,
            "next_at": one.next_at,
            "dead_at": one.at if one.next_at is None else None,
            "answered": one.answered,
            "error": one.error[:MOST_SAID],
        }
        for one in tries
    ]
    await tx.connection.execute(_HELD.values({name: bindparam(name) for name in names}), rows)


_HELD = update(webhook_deliveries).where(
    _d.id == bindparam("_id"), _d.attempts == bindparam("_attempts"), _d.next_at.is_not(None)
)
"""An update of deliveries that this server still has."""


async def give_back(tx: Tx, flying: Collection[Claimed], now: datetime) -> None:
    """Release deliveries to other servers, because this one stops. Any that did arrive will arrive twice."""
    if flying:
        rows = [{"_id": one.id, "_attempts": one.attempts, "next_at": now} for one in flying]
        await tx.connection.execute(_HELD.values(next_at=bindparam("next_at")), rows)


def seen(tokens_at: datetime | None) -> Select[Any]:
    """Return a statement for webhooks with their numbers of waiting and dead deliveries, and whether the owner acts.

    The owner acts with a token that is valid at `tokens_at`, or if that is None.
    """

    def number(state: ColumnElement[bool]) -> ScalarSelect[int]:
        mine = select(func.count()).select_from(webhook_deliveries).where(_d.webhook_id == webhooks.c.id, state)
        return mine.correlate(webhooks).scalar_subquery()

    waiting_ones, dead_ones = number(_d.next_at.is_not(None)), number(_d.dead_at.is_not(None))
    moves = acts(webhooks.c.owner, tokens_at).label("acts")
    return select(webhooks, waiting_ones.label("waiting"), dead_ones.label("dead"), moves)


async def page_of_deliveries(
    connection: AsyncConnection, webhook_id: str, *, dead: bool, limit: int, offset: int
) -> tuple[Sequence[Any], int]:
    """Return a webhook's dead or waiting deliveries, newest first, and how many there are."""
    state = _d.dead_at.is_not(None) if dead else _d.next_at.is_not(None)
    where = (_d.webhook_id == webhook_id, state)
    total = (await connection.execute(select(func.count()).select_from(webhook_deliveries).where(*where))).scalar_one()
    columns = [column for column in webhook_deliveries.c if column.name != "body"]
    statement = (
        select(*columns, tasks.c.id.label("task_id"), tasks.c.job_name)
        .join_from(webhook_deliveries, tasks, _d.task_seq == tasks.c.seq)
        .where(*where)
        .order_by(_d.created_at.desc(), _d.id.desc())
    )
    return (await connection.execute(statement.limit(limit).offset(offset))).all(), total


def _some(webhook_id: str, most: int, *state: ColumnElement[bool]) -> ColumnElement[bool]:
    found = select(_d.id).where(_d.webhook_id == webhook_id, *state).limit(most)
    # Rows that another server has locked are left to it.
    return _d.id.in_(found.with_for_update(skip_locked=True))


async def revive(tx: Tx, webhook_id: str, ids: Collection[str] | None, now: datetime, most: int) -> set[str]:
    """Make dead deliveries due at once, those with these ids or up to `most`, and return their ids."""
    is_dead = _d.dead_at.is_not(None)
    if ids is None:
        statement = update(webhook_deliveries).where(_some(webhook_id, most, is_dead))
    else:
        statement = update(webhook_deliveries).where(_d.webhook_id == webhook_id, is_dead, _d.id.in_(sorted(ids)))
    changed = statement.values(dead_at=None, next_at=now, attempts=0).returning(_d.id)
    return {str(found) for found in (await tx.connection.execute(changed)).scalars()}


async def empty(tx: Tx, webhook_id: str, most: int) -> None:
    """Delete up to `most` deliveries of a webhook."""
    await tx.connection.execute(delete(webhook_deliveries).where(_some(webhook_id, most)))

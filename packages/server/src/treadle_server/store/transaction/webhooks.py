"""Webhooks and their outbox: rows come with the outcome, are claimed for a while, and go when they are delivered."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import ColumnElement, ScalarSelect, Select, bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import Status
from treadle_server.domain.webhooks import Hook
from treadle_server.store.base import Tx
from treadle_server.store.tables import tasks, webhook_deliveries, webhooks
from treadle_server.store.transaction.owners import acts
from treadle_server.store.transaction.rows import update_tuples

_d = webhook_deliveries.c

MOST_SAID = 500
"""Characters of what was wrong with a try that are kept."""


class Owed(NamedTuple):
    """A delivery that an outcome makes."""

    id: str
    webhook_id: str
    task_seq: int
    status: Status
    body: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that this server is at; `attempts` counts this try, and fences it."""

    id: str
    webhook_id: str
    body: str
    attempts: int
    url: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a try that was not taken."""

    id: str
    attempts: int
    next_at: datetime | None
    """None: it is dead."""
    at: datetime
    answered: int | None
    error: str


async def hooks(connection: AsyncConnection) -> list[Hook]:
    """Return every webhook."""
    columns = select(webhooks.c.id, webhooks.c.room, webhooks.c.jobs, webhooks.c.statuses)
    return [
        Hook(
            str(row.id),
            row.room,
            None if row.jobs is None else frozenset(orjson.loads(row.jobs)),
            frozenset(Status(status) for status in orjson.loads(row.statuses)),
        )
        for row in await connection.execute(columns)
    ]


_NEW = ("id", "webhook_id", "task_seq", "status", "body", "created_at", "attempts", "next_at")
_PUT_IN = insert(webhook_deliveries).from_select(
    _NEW,
    select(*(bindparam(f"new_{name}", type_=_d[name].type).label(name) for name in _NEW)).where(
        # Another server may have deleted the webhook since this one heard of it: then there is nothing to tell.
        webhooks.c.id == bindparam("of")
    ),
)


async def put_in(tx: Tx, owed: Sequence[Owed]) -> None:
    """Put deliveries into the outbox, in the transaction of their outcomes."""
    names = [f"new_{name}" for name in _NEW]
    values = [(one.id, one.webhook_id, one.task_seq, str(one.status), one.body, one.at, 0, one.at) for one in owed]
    rows = [{"of": row[1], **dict(zip(names, row, strict=True))} for row in values]
    await tx.connection.execute(_PUT_IN, rows)


def _first_of() -> Any:
    first = select(func.min(_d.next_at)).where(_d.webhook_id == webhooks.c.id, _d.next_at.is_not(None))
    return first.correlate(webhooks).scalar_subquery()


async def waiting(connection: AsyncConnection, *, tokens_at: datetime | None = None) -> dict[str, datetime]:
    """Return for each webhook with waiting deliveries when the first of them is to be tried.

    One whose owner has no valid token `tokens_at` stands still, and is left out.
    """
    first = select(webhooks.c.id, _first_of().label("first")).where(acts(webhooks.c.owner, tokens_at))
    found = await connection.execute(first)
    return {str(row.id): row.first for row in found if row.first is not None}


_DUE = (
    select(_d.id, _d.webhook_id, _d.body, _d.attempts, webhooks.c.url, webhooks.c.secret)
    .join_from(webhook_deliveries, webhooks, _d.webhook_id == webhooks.c.id)
    .where(_d.webhook_id == bindparam("of"), _d.next_at <= bindparam("now"))
    .order_by(_d.next_at)
    .limit(bindparam("most"))
    # Another server that is at a row has it.
    .with_for_update(of=webhook_deliveries, skip_locked=True)
)


async def claim(tx: Tx, webhook_id: str, *, now: datetime, until: datetime, most: int) -> list[Claimed]:
    """Take up to `most` due deliveries of a webhook; nobody else tries them before `until`."""
    given = {"of": webhook_id, "now": now, "most": most}
    rows = (await tx.connection.execute(_DUE, given)).all()
    found = [Claimed(str(row.id), str(row.webhook_id), row.body, row.attempts + 1, row.url, row.secret) for row in rows]
    taken = [(one.id, one.attempts, until) for one in found]
    await update_tuples(tx, webhook_deliveries, ("id",), ("attempts", "next_at"), taken)
    return found


async def delivered(tx: Tx, ids: Collection[str]) -> None:
    """Forget the deliveries of these ids, which their receivers took."""
    if ids:
        await tx.connection.execute(delete(webhook_deliveries).where(_d.id.in_(sorted(ids))))


async def put_off(tx: Tx, tries: Sequence[Tried]) -> None:
    """Note tries that failed: they are tried again later, or are dead; not those that another server has since."""
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
"""An update of a delivery at which this server still is."""


async def give_back(tx: Tx, flying: Collection[Claimed], now: datetime) -> None:
    """Let others try at once what this server was at: it goes away. What arrived all the same arrives twice."""
    if flying:
        rows = [{"_id": one.id, "_attempts": one.attempts, "next_at": now} for one in flying]
        await tx.connection.execute(_HELD.values(next_at=bindparam("next_at")), rows)


def seen(tokens_at: datetime | None) -> Select[Any]:
    """Return a statement for webhooks with how many deliveries of each wait and are dead, and whether its owner acts.

    That is whether he has a valid token `tokens_at`, or needs none.
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


async def revive(tx: Tx, webhook_id: str, ids: Collection[str] | None, now: datetime) -> set[str]:
    """Have dead deliveries tried again at once, those named or all, and return their ids."""
    statement = update(webhook_deliveries).where(_d.webhook_id == webhook_id, _d.dead_at.is_not(None))
    if ids is not None:
        statement = statement.where(_d.id.in_(sorted(ids)))
    changed = statement.values(dead_at=None, next_at=now, attempts=0).returning(_d.id)
    return {str(found) for found in (await tx.connection.execute(changed)).scalars()}

"""Webhooks over HTTP: set them, show them to their owner and superusers, and redeliver their dead deliveries."""

import re
from typing import Any, get_args
from urllib.parse import urlsplit

import orjson
from sqlalchemy import Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from starlette.responses import Response
from uuid_utils import uuid7

from treadle.wire.names import SHARED_ROOMS
from treadle.wire.webhooks import NAME, DeliveryItem, DeliveryState, Redeliver, WebhookSet
from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.domain.webhooks import new_secret
from treadle_server.errors import Forbidden, ValidationFailed, WebhookNotFound
from treadle_server.operations.encode import page_data
from treadle_server.store.base import Tx
from treadle_server.store.tables import webhooks
from treadle_server.store.transaction import webhooks as outbox
from treadle_server.store.transaction.owners import why_still
from treadle_server.webhooks.addresses import AddressRefused, check_literal, networks

MOST_OF_A_ROOM = 100
"""The most webhooks of one room: each outcome is written once for every webhook that wants it."""

AT_ONCE = 1_000
"""How many deliveries one transaction changes: 50,000 held the loop for 0.7 s."""

WebhookRow = Row[Any]


async def put(call: Call) -> Response:
    """Create a webhook (201, with its secret, which is shown only now), or change it (200)."""
    room, name, wanted = _room(call), _name(call), call.body
    assert isinstance(wanted, WebhookSet)
    _check_url(call, wanted.url)
    try:
        created, secret = await _set(call, room, name)
    except IntegrityError:
        # Another request has just created it, so this one changes it.
        created, secret = await _set(call, room, name)
    await call.ctx.engine.hooks.refresh(call.ctx.engine.store)
    async with call.ctx.engine.store.read() as connection:
        data = _data(await _seen(connection, call, room, name))
    return answer(data | {"secret": secret}, 201 if created else 200)


async def _set(call: Call, room: str, name: str) -> tuple[bool, str | None]:
    """Write the webhook; return whether it is new, and its secret if that is."""
    async with call.ctx.engine.store.write() as tx:
        before = await _find(tx, room, name)
        if before is not None:
            _check_owner(call, before)
            secret = new_secret() if call.body.rotate else None
            change = update(webhooks).where(webhooks.c.id == before.id)
            await tx.connection.execute(change.values(_values(call, secret)))
            return False, secret
        await _check_room_for_more(tx, room)
        secret = new_secret()
        own = {"id": str(uuid7()), "room": room, "name": name, "owner": call.principal.user}
        values = own | {"created_at": call.ctx.now()} | _values(call, secret)
        await tx.connection.execute(insert(webhooks), values)
        return True, secret


def _check_url(call: Call, url: str) -> None:
    try:
        check_literal(urlsplit(url).hostname or "", networks(call.ctx.settings.webhook_allowed_networks))
    except AddressRefused as error:
        raise ValidationFailed(f"url: {error}") from None


async def list_in_room(call: Call) -> Response:
    """List your webhooks in the room by name; a superuser sees everybody's."""
    room, limit, offset = _room(call), call.limit(), call.offset()
    where = [webhooks.c.room == room]
    if not call.principal.superuser:
        where.append(webhooks.c.owner == call.principal.user)
    async with call.ctx.engine.store.read() as connection:
        total = (await connection.execute(select(func.count()).select_from(webhooks).where(*where))).scalar_one()
        named = (
            outbox.seen(call.ctx.engine.tokens_at()).where(*where).order_by(webhooks.c.name).limit(limit).offset(offset)
        )
        items = [_data(row) for row in await connection.execute(named)]
    return answer(page_data(items, total, limit, offset))


async def get(call: Call) -> Response:
    """Get a webhook."""
    async with call.ctx.engine.store.read() as connection:
        return answer(_data(await _seen(connection, call, _room(call), call.path("name"))))


async def remove(call: Call) -> Response:
    """Delete a webhook, with its deliveries that are still due."""
    async with call.ctx.engine.store.read() as connection:
        found = await _seen(connection, call, _room(call), call.path("name"))
    for _ in range(0, found.waiting + found.dead, AT_ONCE):
        async with call.ctx.engine.store.write() as tx:
            await outbox.empty(tx, str(found.id), AT_ONCE)
    async with call.ctx.engine.store.write() as tx:
        found = await _seen(tx.connection, call, _room(call), call.path("name"))
        await tx.connection.execute(delete(webhooks).where(webhooks.c.id == found.id))
    await call.ctx.engine.hooks.refresh(call.ctx.engine.store)
    return Response(status_code=204)


async def deliveries(call: Call) -> Response:
    """List dead deliveries, newest first, or with `state=waiting` those that are still being tried.

    Raises `WebhookNotFound`, and `ValidationFailed` for another state.
    """
    limit, offset, state = call.limit(), call.offset(), call.text("state") or "dead"
    if state not in get_args(DeliveryState):
        raise ValidationFailed(f"state: {state[:40]!r} is neither dead nor waiting")
    async with call.ctx.engine.store.read() as connection:
        found = await _seen(connection, call, _room(call), call.path("name"))
        rows, total = await outbox.page_of_deliveries(
            connection, str(found.id), dead=state == "dead", limit=limit, offset=offset
        )
    return answer(page_data([_delivery(row) for row in rows], total, limit, offset))


async def redeliver(call: Call) -> Response:
    """Try dead deliveries again at once: the named ones, all or none of them, or all that there are.

    Raises `WebhookNotFound`, and `ValidationFailed` for an id that is not a dead delivery's.
    """
    wanted = call.body
    assert isinstance(wanted, Redeliver)
    async with call.ctx.engine.store.read() as connection:
        found = await _seen(connection, call, _room(call), call.path("name"))
    revived: set[str] = set()
    for _ in range(0, found.dead if wanted.ids is None else 1, AT_ONCE):
        async with call.ctx.engine.store.write() as tx:
            revived |= await outbox.revive(tx, str(found.id), wanted.ids, call.ctx.now(), AT_ONCE)
            if missing := sorted(set(wanted.ids or ()) - revived):
                raise ValidationFailed(f"ids: {', '.join(missing[:3])}: not a dead delivery of this webhook")
    call.ctx.engine.hooks.on_owed()
    return answer({"redelivered": len(revived)})


def _room(call: Call) -> str:
    """Return the room. Raises `Forbidden` for a shared one unless for a superuser: it hears of tasks of other rooms."""
    room = call.room
    if room in SHARED_ROOMS and not call.principal.superuser:
        raise Forbidden(f"only a superuser may set and see webhooks of {room}; use a room of your own")
    return room


def _name(call: Call) -> str:
    name = call.path("name")
    if not re.fullmatch(NAME, name):
        raise ValidationFailed(
            f"name: {name[:80]!r} is not a webhook name: write 1 to 64 letters, digits, dots, hyphens and underscores"
        )
    return name


def _check_owner(call: Call, found: WebhookRow) -> None:
    if not call.principal.superuser and found.owner != call.principal.user:
        raise Forbidden(f"another user has a webhook {found.name} in this room; choose another name")


async def _find(tx: Tx, room: str, name: str) -> WebhookRow | None:
    where = (webhooks.c.room == room, webhooks.c.name == name)
    return (await tx.connection.execute(select(webhooks).where(*where).with_for_update())).first()


async def _seen(connection: Any, call: Call, room: str, name: str) -> WebhookRow:
    """Return the webhook. Raises `WebhookNotFound`, also for another user's."""
    where = (webhooks.c.room == room, webhooks.c.name == name)
    found: WebhookRow | None = (
        await connection.execute(outbox.seen(call.ctx.engine.tokens_at()).where(*where))
    ).first()
    if found is None or not (call.principal.superuser or found.owner == call.principal.user):
        raise WebhookNotFound(f"you have no webhook {name[:80]} in room {room}")
    return found


async def _check_room_for_more(tx: Tx, room: str) -> None:
    counted = select(func.count()).select_from(webhooks).where(webhooks.c.room == room)
    if (await tx.connection.execute(counted)).scalar_one() >= MOST_OF_A_ROOM:
        raise ValidationFailed(f"room {room} has {MOST_OF_A_ROOM} webhooks already; delete one first")


def _values(call: Call, secret: str | None) -> dict[str, Any]:
    wanted: WebhookSet = call.body
    values: dict[str, Any] = {
        "url": wanted.url,
        "jobs": None if wanted.jobs is None else orjson.dumps(wanted.jobs).decode(),
        "statuses": orjson.dumps(wanted.statuses).decode(),
        "updated_at": call.ctx.now(),
    }
    return values if secret is None else values | {"secret": secret}


def _data(row: WebhookRow) -> dict[str, Any]:
    """Return the webhook as `WebhookItem`, without its secret."""
    names = ("id", "name", "url", "owner", "created_at", "updated_at", "waiting", "dead")
    return {name: getattr(row, name) for name in names} | {
        "room_id": row.room,
        "jobs": None if row.jobs is None else orjson.Fragment(row.jobs),
        "statuses": orjson.Fragment(row.statuses),
        "stands_still": why_still(row.owner, acts=bool(row.acts)),
        "secret": None,
    }


def _delivery(row: Any) -> dict[str, Any]:
    """Return a delivery as `DeliveryItem`."""
    return {name: getattr(row, name) for name in DeliveryItem.model_fields}

"""Sets and shows limits, with their use and how many tasks wait."""

from typing import Any

from treadle.wire.limits import Caps as WireCaps
from treadle.wire.limits import LimitPut
from treadle_server.access.checks import visibility_of
from treadle_server.access.principal import Principal
from treadle_server.domain.limits import Caps
from treadle_server.domain.visibility import Visibility
from treadle_server.engine.commands import SetLimit
from treadle_server.operations.context import OperationContext
from treadle_server.operations.encode import limit_data
from treadle_server.store.read import limits as read_limits

MOST_SHOWN = 500
"""The most limits of one answer."""


async def set_limit(
    ctx: OperationContext, principal: Principal, room: str, name: str, wanted: LimitPut
) -> tuple[dict[str, Any], bool]:
    """Create or change a limit; return it as `LimitItem`, and whether it is new.

    Raises `InvalidRoomId` or `Forbidden`.
    """
    command = SetLimit(principal=principal, room=room, name=name, caps=caps_of(wanted))
    _, is_new = await ctx.engine.run(command)
    return await shown_limit(ctx, room, name, visibility_of(principal)), is_new


def caps_of(wanted: WireCaps) -> Caps:
    """Return what a limit allows; a missing burst is the rate's count."""
    rate = wanted.rate
    return Caps(
        concurrency=wanted.concurrency,
        rate_count=None if rate is None else rate.count,
        rate_seconds=None if rate is None else rate.seconds,
        rate_burst=None if rate is None else rate.burst or rate.count,
        on_full=wanted.on_full,
    )


async def shown_limit(ctx: OperationContext, room: str, name: str, visibility: Visibility | None) -> dict[str, Any]:
    """Return a limit as `LimitItem`; its busiest keys are left out if `visibility` does not include them.

    Raises `LimitNotFound`.
    """
    async with ctx.engine.store.read() as connection:
        return limit_data(await read_limits.get(connection, room=room, name=name, visibility=visibility))


async def shown_limits(
    ctx: OperationContext, room: str, visibility: Visibility | None, *, limit: int = MOST_SHOWN, offset: int = 0
) -> tuple[list[dict[str, Any]], int]:
    """Return the limits that the room sees as `LimitItem`, newest first, and how many there are."""
    async with ctx.engine.store.read() as connection:
        found, total = await read_limits.page(connection, room=room, visibility=visibility, limit=limit, offset=offset)
    return [limit_data(view) for view in found], total

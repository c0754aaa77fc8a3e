"""Limits over HTTP: create, change, list with their use, delete."""

from starlette.responses import Response

from treadle.wire.limits import LimitPut, check_limit_name
from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.engine.commands import DeleteLimit
from treadle_server.errors import ValidationFailed
from treadle_server.operations.encode import page_data
from treadle_server.operations.limits import set_limit, shown_limit, shown_limits


def _name(call: Call) -> str:
    """Return the limit's name from the path. Raises `ValidationFailed`."""
    try:
        return check_limit_name(call.path("name"))
    except ValueError as error:
        raise ValidationFailed(f"name: {error}") from None


async def put(call: Call) -> Response:
    """Create a limit (201), or change the one of this name, even while tasks wait for it and run."""
    wanted: LimitPut = call.body
    data, is_new = await set_limit(call.ctx, call.principal, call.room, _name(call), wanted)
    return answer(data, 201 if is_new else 200)


async def list_in_room(call: Call) -> Response:
    """List the limits that the room sees, newest first, with their use and how many tasks wait."""
    room, limit, offset = call.room, call.limit(), call.offset()
    found, total = await shown_limits(call.ctx, room, call.visibility, limit=limit, offset=offset)
    return answer(page_data(found, total, limit, offset))


async def get(call: Call) -> Response:
    """Get a limit: what it allows, how much of that is used, and how many tasks wait."""
    return answer(await shown_limit(call.ctx, call.room, _name(call), call.visibility))


async def delete(call: Call) -> Response:
    """Delete a limit that neither open tasks nor jobs name."""
    command = DeleteLimit(principal=call.principal, room=call.room, name=_name(call))
    await call.ctx.engine.run(command)
    return Response(status_code=204)

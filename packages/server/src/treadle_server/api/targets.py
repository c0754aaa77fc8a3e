"""Targets over HTTP: which tasks hold them, why, and how many wait."""

from starlette.responses import Response

from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.operations.encode import page_data, target_data
from treadle_server.store.read import targets as read_targets


async def list_in_room(call: Call) -> Response:
    """List the targets of a room, newest first; filter by `held`, and by `text` in the name."""
    room, limit, offset = call.room, call.limit(), call.offset()
    held, text = call.flag("held"), call.text("text")
    async with call.ctx.engine.store.read() as connection:
        found, total = await read_targets.page(
            connection, room=room, held=held, text=text, visibility=call.visibility, limit=limit, offset=offset
        )
    return answer(page_data([target_data(view) for view in found], total, limit, offset))


async def get(call: Call) -> Response:
    """Get a target: which task holds it and why, how many wait for it, and the next in line."""
    room, name = call.room, call.path("name")
    async with call.ctx.engine.store.read() as connection:
        return answer(target_data(await read_targets.get(connection, room=room, name=name)))

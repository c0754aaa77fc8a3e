"""Failures in groups, over HTTP."""

from starlette.responses import Response

from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.operations.encode import group_data
from treadle_server.store.read.failures import groups


async def list_all(call: Call) -> Response:
    """Group the last failed runs by the type of their error and where it was raised; filter by `room` and `job`."""
    async with call.ctx.engine.store.read() as connection:
        found, is_capped = await groups(
            connection,
            call.ctx.now(),
            room=call.room_meant(),
            job=call.text("job"),
            visibility=call.visibility,
        )
    return answer({"items": [group_data(group) for group in found], "is_capped": is_capped})

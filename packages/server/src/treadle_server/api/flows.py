"""Flows over HTTP: list them, get one with its tasks and edges, and apply a verb to all of its tasks."""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.operations.encode import page_data
from treadle_server.operations.flows import act_on_flow, flow_data, flow_id_of, shown_flow
from treadle_server.store.read import flows as read_flows


async def list_all(call: Call) -> Response:
    """List flows, newest first; filter by `room`, or by the beginning of their `id`."""
    limit, offset, room, beginning = call.limit(), call.offset(), call.room_meant(), call.id_beginning()
    async with call.ctx.engine.store.read() as connection:
        found, total = await read_flows.page(
            connection, room=room, beginning=beginning, visibility=call.visibility, limit=limit, offset=offset
        )
    return answer(page_data([flow_data(view) for view in found], total, limit, offset))


async def get(call: Call) -> Response:
    """Get a flow: its counts, its progress, its first tasks and what they wait for."""
    return answer(await shown_flow(call.ctx, call.principal, flow_id_of(call.path("flow_id"))))


_DONE = {
    "cancel": "Cancel the tasks of a flow that have not ended",
    "pause": "Pause the waiting and running tasks of a flow",
    "resume": "Resume the paused tasks of a flow",
    "rerun-failed": "Run the failed tasks of a flow again, with those that were cancelled because of them",
}
"""The summary of each verb in the OpenAPI document."""


def verb(name: str) -> Callable[[Call], Awaitable[Response]]:
    """Return the handler of one verb."""

    async def handler(call: Call) -> Response:
        return answer(await act_on_flow(call.ctx, call.principal, flow_id_of(call.path("flow_id")), name))

    handler.__doc__ = f"{_DONE[name]}; each has its own answer."
    return handler

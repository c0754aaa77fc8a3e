"""Steps over HTTP: those that a task keeps, and the messages that are sent to it and received."""

from starlette.responses import Response

from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.operations.encode import page_data
from treadle_server.operations.steps import kept_steps, receive_message, send_message


async def list_of_task(call: Call) -> Response:
    """List the steps that the task keeps, in the order in which they were kept; a page ends early when it is large.

    Up to 500 unless `limit` says otherwise.
    """
    limit, offset = call.limit(), call.offset()
    items, total = await kept_steps(call.ctx, call.task_id, offset=offset, limit=limit)
    return answer(page_data(items, total, limit, offset))


async def send(call: Call) -> Response:
    """Send the task a message: 201, or 200 when it was sent before; a task that waits for it goes on."""
    data, is_new = await send_message(call.ctx, call.principal, call.task_id, call.path("name"), call.body)
    return answer(data, 201 if is_new else 200)


async def receive(call: Call) -> Response:
    """Receive the oldest message that waits under the step's name, and keep it as that step; null: none waits."""
    return answer(await receive_message(call.ctx, call.principal, call.task_id, call.run_id, call.body))

"""Steps over HTTP: list those that a task keeps, send it messages, and receive them."""

from starlette.responses import Response

from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.operations.encode import page_data
from treadle_server.operations.steps import kept_steps, receive_message, send_message


async def list_of_task(call: Call) -> Response:
    """List the steps that the task keeps, in the order in which it kept them; a large page ends early.

    Up to 500 unless `limit` says otherwise.
    """
    limit, offset = call.limit(), call.offset()
    items, total = await kept_steps(call.ctx, call.task_id, offset=offset, limit=limit)
    return answer(page_data(items, total, limit, offset))


async def send(call: Call) -> Response:
    """Send the task a message: 201, or 200 if it was sent before; a task that waits for it goes on."""
    data, is_new = await send_message(call.ctx, call.principal, call.task_id, call.path("name"), call.body)
    return answer(data, 201 if is_new else 200)


async def receive(call: Call) -> Response:
    """Receive the oldest waiting message of the step's name, and keep it as that step; null if there is none."""
    return answer(await receive_message(call.ctx, call.principal, call.task_id, call.run_id, call.body))

"""Steps over HTTP: those that a task keeps, and the messages that are sent to it and received."""

from starlette.responses import Response

from treadle_server.api.answers import answer
from treadle_server.api.call import MOST_PER_PAGE, Call
from treadle_server.operations.encode import page_data
from treadle_server.operations.steps import kept_steps, receive_message, send_message


async def list_of_task(call: Call) -> Response:
    """List the steps that the task keeps, in the order in which they were kept; `next_cursor` leads on.

    A page ends early when its results are large.
    """
    limit = call.limit(MOST_PER_PAGE)
    items, total, following = await kept_steps(call.api, call.task_id, first=call.number("cursor") or 0, most=limit)
    cursor = None if following is None else str(following)
    return answer(page_data(items, total, limit, 0, cursor=cursor))


async def send(call: Call) -> Response:
    """Send the task a message: 201, or 200 when it was sent before; a task that waits for it goes on."""
    data, is_new = await send_message(call.api, call.principal, call.task_id, call.path("name"), call.body)
    return answer(data, 201 if is_new else 200)


async def receive(call: Call) -> Response:
    """Receive the oldest message that waits under the step's name, and keep it as that step; null: none waits."""
    return answer(await receive_message(call.api, call.principal, call.task_id, call.run_id, call.body))

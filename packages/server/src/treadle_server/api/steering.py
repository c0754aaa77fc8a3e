"""The verbs for one task over HTTP: cancel, pause, resume, rerun, resolve."""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.operations.editing import steer_task
from treadle_server.operations.reading import shown_after


def verb(action: str) -> Callable[[Call], Awaitable[Response]]:
    """Return the handler of one verb."""

    async def handler(call: Call) -> Response:
        task = await steer_task(call.ctx, call.principal, call.task_id, action, call.body)
        return answer(await shown_after(call.ctx, task))

    handler.__doc__ = f"{action.capitalize()} a task."
    return handler

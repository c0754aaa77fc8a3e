"""The verbs over HTTP for one task: cancel, pause, resume, rerun, resolve."""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle.wire.tasks import Resolve
from treadle.wire.tasks import Steer as SteerBody
from treadle_server.access.principal import Principal
from treadle_server.api import body
from treadle_server.api.context import Api, Call
from treadle_server.api.encode import answer
from treadle_server.api.reading import shown_after
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Steer


async def steer_task(api: Api, principal: Principal, task_id: TaskId, action: str, given: SteerBody) -> Task:
    """Apply the verb. Raises `TaskNotFound`, `Forbidden`, `TaskConflict` or `InvalidTaskTransition`."""
    command = Steer(principal=principal, task_id=task_id, action=action, if_version=given.if_version)
    if isinstance(given, Resolve):
        command.to = Status(given.status)
        command.result = body.text_or_none(given.result)
        command.error = given.error
    return await api.engine.run(command)


def verb(action: str) -> Callable[[Call], Awaitable[Response]]:
    """Return the handler of one verb."""

    async def handler(call: Call) -> Response:
        task = await steer_task(call.api, call.principal, call.task_id, action, call.body)
        return answer(await shown_after(call.api, task))

    handler.__doc__ = f"{action.capitalize()} a task."
    return handler

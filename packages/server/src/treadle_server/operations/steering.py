"""Turns a verb for one task on the wire into the engine's command."""

from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle.wire.tasks import Rerun, Resolve
from treadle.wire.tasks import Steer as SteerBody
from treadle_server.access.principal import Principal
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Steer
from treadle_server.operations import values
from treadle_server.operations.context import OperationContext


async def steer_task(
    ctx: OperationContext, principal: Principal, task_id: TaskId, action: str, given: SteerBody
) -> Task:
    """Apply a verb to a task.

    Raises `TaskNotFound`, `Forbidden`, `TaskConflict`, `InvalidTaskTransition`, or `ValidationFailed` if the task does
    not keep the step that the rerun is to begin with.
    """
    command = Steer(principal=principal, task_id=task_id, action=action, if_version=given.if_version)
    if isinstance(given, Resolve):
        command.to = Status(given.status)
        command.result = values.text_or_none(given.result)
        command.error = given.error
    if isinstance(given, Rerun):
        command.from_step = given.from_step
    return await ctx.engine.run(command)

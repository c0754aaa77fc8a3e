"""Shows the steps that a task keeps, sends messages to tasks, and receives them for runs."""

from typing import Any

from pydantic import TypeAdapter, ValidationError
from uuid_utils import uuid7

from treadle.wire.fields import Text
from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.steps import MessageSend, StepRef
from treadle_server.access.principal import Principal
from treadle_server.domain.steps import Message
from treadle_server.engine.commands import Receive, ReportRun, RunReport, SendMessage, StepReport
from treadle_server.errors import ValidationFailed
from treadle_server.operations import values
from treadle_server.operations.context import OperationContext
from treadle_server.operations.encode import step_data
from treadle_server.store.read import steps as read_steps
from treadle_server.store.read import tasks as read_tasks

_NAME: TypeAdapter[str] = TypeAdapter(Text)


async def kept_steps(
    ctx: OperationContext, task_id: TaskId, *, offset: int, limit: int
) -> tuple[list[dict[str, Any]], int]:
    """Return up to `limit` steps as `StepItem` after the first `offset`, and how many the task keeps.

    Raises `TaskNotFound`.
    """
    async with ctx.engine.store.read() as connection:
        task = await read_tasks.get(connection, task_id)
        found = await read_steps.of_task(connection, task.seq, first=offset, most=limit)
    return [step_data(step) for step in found], task.steps


async def send_message(
    ctx: OperationContext, principal: Principal, task_id: TaskId, name: str, given: MessageSend
) -> tuple[dict[str, Any], bool]:
    """Send a message; return it as `MessageItem`, and whether it is new.

    Raises `ValidationFailed` for an invalid name, and the same as `SendMessage`.
    """
    try:
        _NAME.validate_python(name)
    except ValidationError:
        raise ValidationFailed("name: a message's name has 1 to 255 characters, without NUL") from None
    command = SendMessage(
        principal=principal,
        task_id=task_id,
        name=name,
        id=given.id or str(uuid7()),
        data=values.text_or_none(given.data),
    )
    message, is_new = await ctx.engine.run(command)
    return _message_data(task_id, message), is_new


async def receive_message(
    ctx: OperationContext,
    principal: Principal,
    task_id: TaskId,
    run_id: int,
    given: StepRef,
    worker_id: WorkerId | None = None,
) -> dict[str, Any]:
    """Receive a message as a step of the open run; return `Received`. Raises the same as `ReportRun`."""
    told = StepReport(name=given.step, occurrence=given.occurrence, receives=True)
    asked = ReportRun(
        principal=principal,
        worker_id=worker_id,
        task_id=task_id,
        run_id=run_id,
        report=RunReport(kind="receive", step=told),
    )
    step = await ctx.engine.run(Receive(asked))
    return {"item": None if step is None else step_data(step)}


def _message_data(task_id: TaskId, message: Message) -> dict[str, Any]:
    return {
        "task_id": task_id,
        "name": message.name,
        "id": message.id,
        "sent_at": message.sent_at,
        "sender": message.sender,
        "received": message.step is not None,
    }

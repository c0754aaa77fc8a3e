"""Turns an edit or a verb for one task on the wire into the engine's command; an edit's payload is checked first."""

from typing import Any

import orjson

from treadle.wire.edits import TaskChanges
from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle.wire.tasks import Rerun, Resolve
from treadle.wire.tasks import Steer as SteerBody
from treadle_server.access.checks import controls, sees, unseen
from treadle_server.access.principal import Principal
from treadle_server.access.scopes import check_new
from treadle_server.domain.encryption import check_payload
from treadle_server.domain.instants import instant
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Edit, Steer
from treadle_server.operations import values
from treadle_server.operations.context import OperationContext
from treadle_server.operations.reading import read_task

_JSON = ("tags", "checkpoint")
_INSTANTS = ("scheduled_at", "deadline")


async def edit_task(ctx: OperationContext, principal: Principal, task_id: TaskId, patch: TaskChanges) -> Task:
    """Edit a task that is not running.

    Raises `TaskNotFound`, `Forbidden`, `InvalidTaskTransition`, `TaskConflict`, `InvalidPayload`, `ValidationFailed` or
    `TooManyRequests`.
    """
    known = await read_task(ctx, task_id) if patch.payload is not None else None
    return await ctx.engine.run(await edit_command(ctx, principal, task_id, patch, known))


async def edit_command(
    ctx: OperationContext, principal: Principal, task_id: TaskId, patch: TaskChanges, known: Task | None
) -> Edit:
    """Return the command for an edit; if it changes the payload, the task must be `known` to check it.

    Raises `TaskNotFound`, `InvalidPayload`, `TooManyRequests`, or `ValidationFailed` for an invalid time or scope.
    """
    given = patch.model_fields_set & TaskChanges.model_fields.keys() - {"if_version"}
    changes: dict[str, Any] = {name: getattr(patch, name) for name in given}
    for name in _INSTANTS:
        if name in given:
            changes[name] = instant(changes[name], name)
    for name in _JSON:
        if name in given:
            changes[name] = values.text_or_none(changes[name])
    if patch.limits is not None:
        changes["limits"] = [one.model_dump() for one in patch.limits]
    if patch.scopes is not None:
        changes["scopes"] = values.text_of(check_new(patch.scopes))
    if patch.payload is not None:
        if known is None or not (sees(principal, known) or controls(principal, known)):
            raise unseen(task_id)
        text = changes["payload"] = values.text_of(patch.payload)
        check_payload(patch.payload, known.job_name, encrypted=known.is_encrypted)
        if not known.is_encrypted:
            given_later = frozenset(orjson.loads(known.arguments_from)) if known.arguments_from else frozenset()
            await ctx.catalog.check_edit(known, patch.payload, text, given_later)
    return Edit(principal=principal, task_id=task_id, changes=changes, if_version=patch.if_version)


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

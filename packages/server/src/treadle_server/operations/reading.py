"""Reads and shows tasks: one, one after a command, and those that were just submitted."""

from dataclasses import replace
from typing import Any

from treadle.wire.ids import TaskId
from treadle.wire.status import TERMINAL, Status
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Submitted
from treadle_server.operations.context import OperationContext
from treadle_server.operations.encode import seen_data, task_data
from treadle_server.operations.portions import each
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read.dependencies import named
from treadle_server.store.read.targets import blocked_by
from treadle_server.store.read.tasks import Seen


async def read_task(ctx: OperationContext, task_id: TaskId) -> Task:
    """Return the task as it is committed. Raises `TaskNotFound`."""
    async with ctx.engine.store.read_loosely() as connection:
        return await read_tasks.get(connection, task_id)


async def shown_task(ctx: OperationContext, task_id: TaskId) -> dict[str, Any]:
    """Return the task as `TaskItem`, with its position. Raises `TaskNotFound`."""
    async with ctx.engine.store.read() as connection:
        [seen] = await read_tasks.see(connection, [await read_tasks.get(connection, task_id)])
        data = seen_data(seen)
        if seen.task.unmet is not None:
            data["depends_on"], data["depends_on_total"] = await named(connection, seen.task.seq)
        return data


async def shown_after(ctx: OperationContext, task: Task) -> dict[str, Any]:
    """Return the task that a command returned as `TaskItem`; only a waiting task needs a read, for its position."""
    if task.status in TERMINAL or task.is_leased:
        return task_data(task)
    async with ctx.engine.store.read() as connection:
        return seen_data((await read_tasks.see(connection, [task]))[0])


async def shown_submitted(ctx: OperationContext, submitted: list[Submitted]) -> list[dict[str, Any]]:
    """Return submitted tasks as `TaskItem`.

    The position of a new task is known unless it was due before its submit. A read adds the positions of those and of
    tasks that existed already, and what holds the targets that tasks wait for.
    """
    known = [
        one.task for one in submitted if not one.created or (one.position is None and one.task.status is Status.PENDING)
    ]
    targeted = [item.task for item in submitted if item.created and item.task.stands_in_line]
    seen: dict[str, Seen] = {item.task.id: Seen(item.task, item.position) for item in submitted}
    if known or targeted:
        async with ctx.engine.store.read() as connection:
            seen |= {one.task.id: one for one in await read_tasks.see(connection, known)}
            blockers = await blocked_by(connection, targeted)
        seen |= {task.id: replace(seen[task.id], blocked=blockers.get(task.seq)) for task in targeted}
    return await each(lambda item: seen_data(seen[item.task.id]), submitted)

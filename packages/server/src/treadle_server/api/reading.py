"""Reads that several routes and the socket share."""

from typing import Any

from treadle.wire.ids import TaskId
from treadle.wire.status import TERMINAL
from treadle_server.api.context import Api
from treadle_server.api.encode import seen_data, task_data
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Submitted
from treadle_server.store.read import tasks as read_tasks


async def read_task(api: Api, task_id: TaskId) -> Task:
    """Return the task. Raises `TaskNotFound`."""
    async with api.engine.store.read() as connection:
        return await read_tasks.get(connection, task_id)


async def shown_task(api: Api, task_id: TaskId) -> dict[str, Any]:
    """Return the task as `TaskItem`, with its position. Raises `TaskNotFound`."""
    async with api.engine.store.read() as connection:
        return seen_data(await read_tasks.see_one(connection, task_id))


async def shown_after(api: Api, task: Task) -> dict[str, Any]:
    """Return a task that a command gave as `TaskItem`; only one that waits needs a read for its position."""
    if task.status in TERMINAL or task.is_leased:
        return task_data(task)
    async with api.engine.store.read() as connection:
        return seen_data((await read_tasks.see(connection, [task]))[0])


async def shown_submitted(api: Api, submitted: list[Submitted]) -> list[dict[str, Any]]:
    """Return submitted tasks as `TaskItem`; the positions of those that were there already are read."""
    known = [item.task for item in submitted if not item.created]
    places: dict[str, int | None] = {item.task.id: item.position for item in submitted if item.created}
    if known:
        async with api.engine.store.read() as connection:
            places |= {seen.task.id: seen.position for seen in await read_tasks.see(connection, known)}
    return [task_data(item.task, places.get(item.task.id)) for item in submitted]

"""What claims carry of the tasks that they waited for: their results, unless these are too large together."""

from collections.abc import Iterable
from typing import Any

from treadle.wire.ids import TaskId
from treadle_server.domain.tasks import Task
from treadle_server.operations.context import Api
from treadle_server.operations.encode import carried_data
from treadle_server.store.read.dependencies import depended

MOST_BYTES = 1024 * 1024
"""Text of all results of one claim; when they are more, it carries the ids alone."""


async def carried_by(api: Api, tasks: Iterable[Task]) -> dict[TaskId, dict[str, Any]]:
    """Return by task what its claim carries beside it; of tasks that waited for none nothing is asked.

    Raises `StoreUnavailable`.
    """
    waited = [task for task in tasks if task.unmet is not None]
    if not waited:
        return {}
    async with api.engine.store.read() as connection:
        found = {task.id: await depended(connection, task.seq, most_bytes=MOST_BYTES) for task in waited}
    return {task_id: carried_data(listed, is_left_out=is_left_out) for task_id, (listed, is_left_out) in found.items()}

"""What claims carry besides their tasks: the steps that the tasks keep, and the results that they waited for."""

from collections.abc import Iterable
from typing import Any

from treadle.wire.ids import TaskId
from treadle_server.domain.tasks import Task
from treadle_server.operations.context import OperationContext
from treadle_server.operations.encode import step_data
from treadle_server.operations.encode_claims import carried_data
from treadle_server.store.read.dependencies import depended
from treadle_server.store.read.steps import of_tasks

MOST_BYTES = 1024 * 1024
"""The most text in the results of one claim; if there is more, the claim carries only the ids."""

MOST_STEPS = 100
"""The most steps of one claim; if a task keeps more, or their text is longer, its run asks for them.

One read for each run made tasks wake up late: of 2,000 tasks that slept until the same moment, half were at least 9.5 s
late, and the last 19.4 s. With the steps in the claims, read once for each transaction, it is 0.7 s and 0.9 s.
"""

MOST_STEP_TEXT = 64 * 1024
"""The most characters in the results of one claim's steps."""

MOST_TEXT_AT_ONCE = 4 * 1024 * 1024
"""The most characters in the results of all steps that are read for claims at once."""


def carries(task: Task) -> bool:
    """Return whether the task's claim carries anything; most carry nothing."""
    return task.unmet is not None or 0 < task.steps <= MOST_STEPS


async def carried_by(ctx: OperationContext, tasks: Iterable[Task]) -> dict[TaskId, dict[str, Any]]:
    """Return what the claims of tasks carry, by task; reads nothing for tasks whose claims carry nothing.

    Raises `StoreUnavailable`.
    """
    asked = [task for task in tasks if carries(task)]
    if not asked:
        return {}
    waited = [task for task in asked if task.unmet is not None]
    stepped = [task.seq for task in asked if 0 < task.steps <= MOST_STEPS]
    found, kept = {}, {}
    if waited:
        async with ctx.engine.store.read() as connection:
            listed_of = await depended(connection, [task.seq for task in waited], most_bytes=MOST_BYTES)
        found = {task.id: listed_of[task.seq] for task in waited}
    if stepped:
        async with ctx.engine.store.read_in_place() as in_place:
            kept = await of_tasks(in_place, stepped, most_each=MOST_STEP_TEXT, most_in_all=MOST_TEXT_AT_ONCE)
    carried = {id_: carried_data(listed, is_left_out=is_left_out) for id_, (listed, is_left_out) in found.items()}
    for task in asked:
        if (steps := kept.get(task.seq)) is not None:
            carried.setdefault(task.id, {})["kept_steps"] = [step_data(step) for step in steps]
    return carried

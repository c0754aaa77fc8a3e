"""Failures in groups, over HTTP."""

from typing import Any

from starlette.responses import Response

from treadle_server.api.context import Call
from treadle_server.api.encode import answer
from treadle_server.domain.failures import written
from treadle_server.engine.commands.jobs import check_room
from treadle_server.store.read.failures import MOST_JOBS, Group, groups

LONGEST_ERROR = 1_000
"""Characters of an error that a group tells; the task has all of it."""


async def list_all(call: Call) -> Response:
    """Group the last failed runs by the type of their error and where it was raised; `room` and `job` narrow them."""
    room = call.text("room")
    async with call.api.engine.store.read() as connection:
        found, is_capped = await groups(
            connection,
            call.api.now(),
            room=None if room is None else check_room(room),
            job=call.text("job"),
            visibility=call.visibility,
        )
    return answer({"items": [group_data(group) for group in found], "is_capped": is_capped})


def group_data(group: Group) -> dict[str, Any]:
    """Return the group as `FailureGroup`."""
    return {
        "id": written(group.key),
        "kind": group.kind,
        "place": group.place,
        "error": None if group.error is None else group.error[:LONGEST_ERROR],
        "task_id": group.task_id,
        "jobs": [name for name, _ in group.jobs.most_common(MOST_JOBS)],
        "runs": group.runs,
        "first_seen_at": group.first_at,
        "last_seen_at": group.last_at,
        "per_minute": group.minutes,
        "failed": group.failed,
        "retrying": group.retrying,
    }

"""Windows of the task list over HTTP, and the tasks that match a filter at one moment."""

from starlette.responses import Response

from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.operations.encode import listed_data
from treadle_server.operations.windows import frozen, seen_window
from treadle_server.store.read import filters
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read.windows import ahead_of, anchor, partial_total, window


async def look(call: Call) -> Response:
    """Get a window of the task list in any order, with how many tasks match and how many come before it."""
    wanted = seen_window(call.body, call.visibility)
    async with call.ctx.engine.store.read() as connection:
        at = await anchor(connection, wanted)
        found = await window(connection, wanted, at)
        seen = await read_tasks.see(connection, found)
        total, total_is_capped = await filters.total(connection, wanted.filter)
        before, before_is_capped = await ahead_of(connection, wanted, at, found, total)
        # The total may have been counted over other tasks than those that this order went through.
        total = max(total, before + len(found))
        if found.is_partial:
            total, total_is_capped = partial_total(wanted, total, before + len(found), found.reached), True
            before = min(before, total)
    return answer(
        {
            "items": [listed_data(one.task, one.position, one.blocked) for one in seen],
            "total": total,
            "total_is_capped": total_is_capped,
            "ahead": before,
            "ahead_is_capped": before_is_capped,
            "is_partial": found.is_partial,
        }
    )


async def freeze_filter(call: Call) -> Response:
    """List the tasks that match a filter now, with their versions, in the order of the queue."""
    return answer(await frozen(call.ctx, call.principal, call.body))

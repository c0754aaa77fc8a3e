"""Windows of the task list, and what a filter means at one moment: what observers get on the socket, asked for once."""

from typing import Any

from starlette.responses import Response

from treadle.wire.frames import Window
from treadle.wire.tasks import Freeze
from treadle_server.access.checks import visibility_of
from treadle_server.access.principal import Principal
from treadle_server.api.context import Api, Call
from treadle_server.api.encode import answer, seen_data
from treadle_server.domain.visibility import Visibility
from treadle_server.store.read import filters
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read.frozen import freeze
from treadle_server.store.read.windows import ahead_of, anchor, window


async def look(call: Call) -> Response:
    """Give a window of the task list in any order, with how many tasks match and stand before it."""
    wanted = seen_window(call.body, call.visibility)
    async with call.api.engine.store.read() as connection:
        at = await anchor(connection, wanted)
        found = await window(connection, wanted, at)
        seen = await read_tasks.see(connection, found)
        total, total_is_capped = await filters.total(connection, wanted.filter)
        before, before_is_capped = await ahead_of(connection, wanted, at, found, total)
    return answer(
        {
            "items": [seen_data(one) for one in seen],
            "total": total,
            "total_is_capped": total_is_capped,
            "ahead": before,
            "ahead_is_capped": before_is_capped,
        }
    )


async def freeze_filter(call: Call) -> Response:
    """Name the tasks that a filter means at this moment, with their versions, in the order of the queue."""
    return answer(await frozen(call.api, call.principal, call.body))


def seen_window(wanted: Window, visibility: Visibility | None) -> Window:
    """Return the window, of what who reads the rooms of `visibility` sees."""
    return (
        wanted if visibility is None else wanted.model_copy(update={"filter": filters.seen(wanted.filter, visibility)})
    )


async def frozen(api: Api, principal: Principal, wanted: Freeze) -> dict[str, Any]:
    """Return `Frozen`, of what the asker sees. Raises `StoreUnavailable`."""
    at = api.now()
    meant = filters.seen(wanted.filter, visibility_of(principal))
    async with api.engine.store.read() as connection:
        found, is_capped = await freeze(connection, meant, order=wanted.order, limit=wanted.limit)
    items = [{"id": t.id, "version": t.version, "status": t.status, "job_name": t.job_name} for t in found]
    return {"items": items, "is_capped": is_capped, "at": at}

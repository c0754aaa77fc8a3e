"""Windows of the task list, and the tasks that match a filter at one moment, as far as the principal may see them."""

from typing import Any

from treadle.wire.bulk import Freeze
from treadle.wire.frames import Window
from treadle_server.access.checks import visibility_of
from treadle_server.access.principal import Principal
from treadle_server.domain.visibility import Visibility
from treadle_server.operations.context import OperationContext
from treadle_server.store.read import filters
from treadle_server.store.read.windows import freeze


def seen_window(wanted: Window, visibility: Visibility | None) -> Window:
    """Return the window, limited to the rooms of `visibility`."""
    return wanted.model_copy(update={"filter": filters.seen(wanted.filter, visibility)})


async def frozen(ctx: OperationContext, principal: Principal, wanted: Freeze) -> dict[str, Any]:
    """Return `Frozen`, of the tasks that the principal may see. Raises `StoreUnavailable`."""
    at = ctx.now()
    meant = filters.seen(wanted.filter, visibility_of(principal))
    async with ctx.engine.store.read() as connection:
        found, is_capped = await freeze(connection, meant, order=wanted.order, limit=wanted.limit)
    items = [{"id": t.id, "version": t.version, "status": t.status, "job_name": t.job_name} for t in found]
    return {"items": items, "is_capped": is_capped, "at": at}

"""What a filter means at one moment: the names and versions of its tasks, for bulk actions on exactly these."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.filters import TaskFilter
from treadle_server.store.read import filters
from treadle_server.store.read.orders import whole_order
from treadle_server.store.tables import tasks


@dataclass(frozen=True, slots=True)
class FrozenView:
    """A task as it was at that moment."""

    id: str
    version: int
    status: str
    job_name: str


async def freeze(
    connection: AsyncConnection, wanted: TaskFilter, *, order: str, limit: int
) -> tuple[list[FrozenView], bool]:
    """Return up to `limit` matching tasks in the order, and whether there are more.

    One statement reads them, so that all are of one moment: none is missed or doubled because it moves meanwhile.
    """
    where = await filters.conditions(connection, wanted)
    columns = (tasks.c.id, tasks.c.version, tasks.c.status, tasks.c.job_name)
    statement = select(*columns).where(*where).order_by(*whole_order(order)).limit(limit + 1)
    found = [FrozenView(*row) for row in await connection.execute(statement)]
    return found[:limit], len(found) > limit

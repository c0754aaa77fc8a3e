"""When the next scheduled task is due: what the promoter sleeps until."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import Status
from treadle_server.store.tables import status_in, tasks

_NEXT = select(tasks.c.due_at).where(status_in(Status.SCHEDULED)).order_by(tasks.c.due_at).limit(1)


async def next_due(connection: AsyncConnection) -> datetime | None:
    """Return when the next scheduled task is due."""
    return (await connection.execute(_NEXT)).scalar()

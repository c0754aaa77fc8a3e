"""When the next scheduled task is due, and the next token of a limit: what the promoter sleeps until."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import Status
from treadle_server.store.tables import limit_tokens, status_in, tasks

_NEXT = select(tasks.c.due_at).where(status_in(Status.SCHEDULED)).order_by(tasks.c.due_at).limit(1)

_TOKEN = (
    select(limit_tokens.c.opens_at)
    .where(limit_tokens.c.opens_at.is_not(None))
    .order_by(limit_tokens.c.opens_at)
    .limit(1)
)


async def next_due(connection: AsyncConnection) -> datetime | None:
    """Return when the next scheduled task is due."""
    return (await connection.execute(_NEXT)).scalar()


async def next_token(connection: AsyncConnection) -> datetime | None:
    """Return when the next of the buckets that lines wait for has a token."""
    return (await connection.execute(_TOKEN)).scalar()

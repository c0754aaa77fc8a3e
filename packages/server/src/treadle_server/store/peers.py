"""The servers that share a database: how many notices each has sent, and whether it wants each transition."""

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from treadle_server.store.base import Tx
from treadle_server.store.tables import servers


class Peer(NamedTuple):
    """A server, as it shows itself."""

    id: str
    said: int
    wants_each: bool


async def show(tx: Tx, peer: Peer, now: datetime) -> None:
    """Write the server's row."""
    if tx.dialect == "postgresql":
        # Lost in a crash it is written again within a second.
        await tx.connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
    module: Any = sqlite if tx.dialect == "sqlite" else postgresql
    news = {"said": peer.said, "wants_each": peer.wants_each, "seen_at": now}
    statement = module.insert(servers).values(id=peer.id, started_at=now, **news)
    await tx.connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=news))


async def seen(tx: Tx, since: datetime) -> list[Peer]:
    """Return the servers that have shown themselves since the instant."""
    statement = select(servers.c.id, servers.c.said, servers.c.wants_each).where(servers.c.seen_at > since)
    return [Peer(str(row.id), row.said, row.wants_each) for row in await tx.connection.execute(statement)]


async def forget(tx: Tx, before: datetime) -> None:
    """Delete the rows of servers that have not shown themselves since the instant."""
    await tx.connection.execute(delete(servers).where(servers.c.seen_at < before))

"""The servers that share a database: how many notices each has sent, and whether it wants every transition."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, delete, select

from treadle_server.store.base import Tx
from treadle_server.store.tables import servers
from treadle_server.store.transaction.rows import insert_tuples


class Peer(NamedTuple):
    """A server's row."""

    id: str
    said: int
    wants_each: bool


_SEEN = select(servers.c.id, servers.c.said, servers.c.wants_each).where(servers.c.seen_at > bindparam("since"))
_AGAIN = """
ON CONFLICT (id) DO UPDATE SET said = excluded.said, wants_each = excluded.wants_each, seen_at = excluded.seen_at
"""
_UNSEEN = delete(servers).where(servers.c.seen_at < bindparam("before"))


async def show(tx: Tx, peer: Peer, now: datetime) -> None:
    """Write the server's row, seen at `now`."""
    names = (*Peer._fields, "started_at", "seen_at")
    await insert_tuples(tx, servers, names, [(*peer, now, now)], _AGAIN)


async def spare_sync(tx: Tx) -> None:
    """Commit without waiting for the disk, for a transaction that does nothing else and is repeated every second."""
    if tx.dialect == "postgresql":
        await tx.connection.exec_driver_sql("SET LOCAL synchronous_commit = off")


async def seen(tx: Tx, since: datetime) -> list[Peer]:
    """Return the servers that were seen since the instant."""
    found = await tx.connection.execute(_SEEN, {"since": since})
    return [Peer(str(row.id), row.said, row.wants_each) for row in found]


async def unseen(tx: Tx, before: datetime) -> set[str]:
    """Return the servers that were last seen before the instant and have not signed off."""
    found = await tx.connection.execute(select(servers.c.id).where(servers.c.seen_at < before))
    return set(map(str, found.scalars()))


async def forget(tx: Tx, before: datetime) -> None:
    """Delete the rows of servers that were not seen since the instant."""
    await tx.connection.execute(_UNSEEN, {"before": before})

"""The servers that share a database: how many notices each has sent, and whether it wants each transition."""

from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Executable, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from treadle_server.store.base import Dialect, Tx
from treadle_server.store.tables import servers


class Peer(NamedTuple):
    """A server, as it shows itself."""

    id: str
    said: int
    wants_each: bool


@cache
def _shown(dialect: Dialect) -> Executable:
    module: Any = sqlite if dialect == "sqlite" else postgresql
    names = ("id", "started_at", "said", "wants_each", "seen_at")
    statement = module.insert(servers).values({name: bindparam(name) for name in names})
    news = {name: statement.excluded[name] for name in ("said", "wants_each", "seen_at")}
    shown: Executable = statement.on_conflict_do_update(index_elements=["id"], set_=news)
    return shown


_SEEN = select(servers.c.id, servers.c.said, servers.c.wants_each).where(servers.c.seen_at > bindparam("since"))
_UNSEEN = delete(servers).where(servers.c.seen_at < bindparam("before"))


async def show(tx: Tx, peer: Peer, now: datetime) -> None:
    """Write the server's row: what it says, and that it was seen at `now`."""
    if tx.dialect == "postgresql":
        # Lost in a crash it is written again within a second.
        await tx.connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
    await tx.connection.execute(_shown(tx.dialect), {**peer._asdict(), "started_at": now, "seen_at": now})


async def seen(tx: Tx, since: datetime) -> list[Peer]:
    """Return the servers that have shown themselves since the instant."""
    found = await tx.connection.execute(_SEEN, {"since": since})
    return [Peer(str(row.id), row.said, row.wants_each) for row in found]


async def forget(tx: Tx, before: datetime) -> None:
    """Delete the rows of servers that have not shown themselves since the instant."""
    await tx.connection.execute(_UNSEEN, {"before": before})

"""Elects the leader: the one of several servers on a PostgreSQL whose services sweep, promote and schedule (G11).

The leader holds a session-level lock. The database ends the session, and with it the lock, when the leader is killed,
and within six seconds if its machine is gone or it hangs; the others try to take the lock every second.
"""

import asyncio
import logging
from secrets import randbits

from sqlalchemy import func, select

from treadle_server.errors import SettingUnusable
from treadle_server.services.base import Service
from treadle_server.store.migrations import HEAD
from treadle_server.store.postgres.dedicated import Connect, DedicatedConnection
from treadle_server.store.store import SqlStore

log = logging.getLogger(__name__)

LOCK = 7_420_100 + int(HEAD)
"""The leader's advisory lock. Each revision of the schema has its own, because a server that a newer one has made
outdated can do none of a leader's work."""

EVERY = 1.0
"""Seconds between two attempts to take the lock, or two checks that it is still held."""

_ASK = f"SELECT pg_try_advisory_lock({LOCK}), set_config('idle_session_timeout', '6s', false)"


class Leader(Service):
    """Tries to become the leader, and checks whether it still is."""

    name = "leader"
    everywhere = True

    def __init__(self, url: str, *, connect: Connect = DedicatedConnection) -> None:
        super().__init__()
        self.term = 0
        self._leads = asyncio.Event()
        self._connection = connect(url, self._lose)

    @property
    def is_leading(self) -> bool:
        """Return whether this server is the leader at this moment."""
        return self._leads.is_set()

    async def until_leading(self) -> None:
        """Wait until this server is the leader."""
        await self._leads.wait()

    async def check(self) -> None:
        """Connect now. Raises `StoreUnavailable`, and `ValidationFailed` when the URL leads to a pooler."""
        await self._connection.open()

    async def check_place(self, store: SqlStore) -> None:
        """Check that the lock's connection and the store use one database: a lock of one must keep the other out.

        In another database the lock may be taken by another Treadle, so that nobody leads here, or be free for each of
        the servers here. Raises `SettingUnusable`, and `StoreUnavailable`.
        """
        key = randbits(62)
        async with store.write() as tx, self._connection.lent() as connection:
            await tx.connection.execute(select(func.pg_advisory_xact_lock(key)))
            is_elsewhere = await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", key)
        if is_elsewhere:
            raise SettingUnusable(
                "TREADLE_DATABASE_DIRECT_URL and TREADLE_DATABASE_URL name different databases: let the direct URL name"
                " the same database, without the pooler"
            )

    async def turn(self) -> float:
        """Ask for the lock, or whether it is still held. Raises `StoreUnavailable`."""
        async with self._connection.lent() as connection:
            held = await connection.fetchval("SELECT 1" if self.is_leading else _ASK)
        if held and self._connection.is_open and not self.is_leading:
            self.term += 1
            self._leads.set()
            log.info("this server is now the leader: its sweeper, promoter and scheduler run")
        return EVERY

    def _lose(self) -> None:
        if self.is_leading:
            log.warning("this server is no longer the leader")
            self._leads.clear()
        self.wake()

    async def close(self) -> None:
        """Release the lead to another server."""
        self._leads.clear()
        await self._connection.close()

"""A dedicated connection to PostgreSQL that bypasses any pooler, for session state: LISTEN, the leader's lock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from treadle_server.errors import StoreUnavailable, ValidationFailed
from treadle_server.store.connections import KEPT_OPEN
from treadle_server.store.failures import TAKES_NO_WRITES, described
from treadle_server.store.urls import dsn_of, parse_url

if TYPE_CHECKING:
    import asyncpg

PATIENCE = 5.0
"""Seconds after which a statement on such a connection times out."""

_KEPT_ALIVE = {
    "application_name": "treadle",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "2",
    **KEPT_OPEN,
}
"""When a machine vanishes, PostgreSQL ends its session, and releases what that held, within six seconds."""


class DedicatedConnection:
    """Connects on first use, and again after a break; `on_break` is called when a break happens or is found."""

    def __init__(self, url: str, on_break: Callable[[], None]) -> None:
        self._dsn = dsn_of(parse_url(url))
        self._on_break = on_break
        self._connection: asyncpg.Connection[Any] | None = None
        self._opening = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Return whether it is connected now."""
        return self._connection is not None and not self._connection.is_closed()

    async def open(self) -> "asyncpg.Connection[Any]":
        """Return the connection.

        Raises `StoreUnavailable` when the database does not answer or accepts no writes, and `ValidationFailed` when
        the URL leads to a pooler that shares connections between its clients.
        """
        async with self._opening:
            if self._connection is not None and self._connection.is_closed():
                # The driver closes an unusable connection silently.
                self._forget(self._connection)
            elif self._connection is not None and _is_read_only(self._connection):
                # Another host is the primary now: locks and notifications on this one are useless.
                self._drop(self._connection)
            if self._connection is None:
                async with answers():
                    connection = await _connect(self._dsn)
                connection.add_termination_listener(self._forget)
                self._connection = connection
            return self._connection

    @asynccontextmanager
    async def lent(self) -> "AsyncIterator[asyncpg.Connection[Any]]":
        """Lend the connection for a few statements; it is discarded if anything fails.

        Raises as `open` does.
        """
        connection = await self.open()
        try:
            async with answers():
                yield connection
        except Exception:
            # Its state is unknown after an error or a timeout.
            self._drop(connection)
            raise

    def _forget(self, connection: object) -> None:
        """Treat the connection as broken, once: the driver may report a break that was already noticed."""
        if connection is self._connection:
            self._connection = None
            self._on_break()

    def _drop(self, connection: "asyncpg.Connection[Any]") -> None:
        self._forget(connection)
        connection.terminate()

    async def close(self) -> None:
        """Close the connection, which releases what its session held."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                async with answers():
                    await connection.close()
            except StoreUnavailable:
                connection.terminate()


Connect = Callable[[str, Callable[[], None]], DedicatedConnection]
"""Makes a connection to a URL; simulations replace it."""


def _is_read_only(connection: "asyncpg.Connection[Any]") -> bool:
    """Return whether the host is read-only, by the settings that it reported last, without asking it."""
    told = connection.get_settings()
    return "on" in {getattr(told, name, "off") for name in ("in_hot_standby", "default_transaction_read_only")}


async def _connect(dsn: str) -> "asyncpg.Connection[Any]":
    import asyncpg

    connection = await asyncpg.connect(dsn, timeout=PATIENCE, server_settings=_KEPT_ALIVE)
    try:
        process = await connection.fetchval("SELECT pg_backend_pid()")
    except BaseException:
        # Also on cancellation: a server may stop right after it has started.
        connection.terminate()
        raise
    if connection.get_server_pid() != process:
        await connection.close()
        raise ValidationFailed(POOLED)
    if _is_read_only(connection):
        # `open` would only drop it again, and in a tight loop where a break wakes the caller.
        await connection.close()
        raise StoreUnavailable(TAKES_NO_WRITES)
    return connection


POOLED = (
    "the database is behind a connection pooler, which would lose the state of the session: set"
    " TREADLE_DATABASE_DIRECT_URL to PostgreSQL itself"
)


@asynccontextmanager
async def answers() -> AsyncIterator[None]:
    """Raise `StoreUnavailable` when the database does not answer in the block, or not in time.

    Raises `ValidationFailed` when a pooler answers, which rejects a session's parameters.
    """
    import asyncpg

    try:
        async with asyncio.timeout(PATIENCE):
            yield
    except asyncpg.ProtocolViolationError as error:
        # pgbouncer's answer to a session parameter.
        raise ValidationFailed(f"{POOLED} ({error})") from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise StoreUnavailable(described(error)) from error

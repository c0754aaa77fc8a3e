"""A connection of its own to PostgreSQL, past any pool, for what a session keeps there: LISTEN, the leader's lock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from treadle_server.errors import StoreUnavailable, ValidationFailed
from treadle_server.store.connections import KEPT_OPEN
from treadle_server.store.failures import TAKES_NO_WRITES, told_of
from treadle_server.store.urls import dsn_of, parse_url

if TYPE_CHECKING:
    import asyncpg

PATIENCE = 5.0
"""Seconds that the database has for an answer on such a connection."""

_KEPT_ALIVE = {
    "application_name": "treadle",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "2",
    **KEPT_OPEN,
}
"""PostgreSQL ends the session of a machine that is gone within six seconds, and with it what the session held."""


class DedicatedConnection:
    """Connects when it is used, and again when it broke; `on_break` is called when it did, or is found to have."""

    def __init__(self, url: str, on_break: Callable[[], None]) -> None:
        self._dsn = dsn_of(parse_url(url))
        self._on_break = on_break
        self._connection: asyncpg.Connection[Any] | None = None
        self._opening = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Return whether there is a connection at this moment."""
        return self._connection is not None and not self._connection.is_closed()

    async def open(self) -> "asyncpg.Connection[Any]":
        """Return the connection.

        Raises `StoreUnavailable` when the database does not answer or takes no writes, and `ValidationFailed` when a
        pool that shares connections between its clients stands before it.
        """
        async with self._opening:
            if self._connection is not None and self._connection.is_closed():
                # The driver closes one that it can't use any more without a word.
                self._forget(self._connection)
            elif self._connection is not None and _is_read_only(self._connection):
                # Another host is the primary now: what is held and heard here is of no use.
                self._drop(self._connection)
            if self._connection is None:
                async with answers():
                    connection = await _connect(self._dsn)
                connection.add_termination_listener(self._forget)
                self._connection = connection
            return self._connection

    @asynccontextmanager
    async def lent(self) -> "AsyncIterator[asyncpg.Connection[Any]]":
        """Lend the connection for a few statements; one on which anything fails is not used again.

        Raises as `open` does.
        """
        connection = await self.open()
        try:
            async with answers():
                yield connection
        except Exception:
            # What it was about to do is not known any more, also when that took too long.
            self._drop(connection)
            raise

    def _forget(self, connection: object) -> None:
        """Take the connection for broken, once: the driver may say so after it was found out."""
        if connection is self._connection:
            self._connection = None
            self._on_break()

    def _drop(self, connection: "asyncpg.Connection[Any]") -> None:
        self._forget(connection)
        connection.terminate()

    async def close(self) -> None:
        """Close the connection, and with it what its session held."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                async with answers():
                    await connection.close()
            except StoreUnavailable:
                connection.terminate()


Connect = Callable[[str, Callable[[], None]], DedicatedConnection]
"""Makes a connection to the database of a URL; simulations have one of their own."""


def _is_read_only(connection: "asyncpg.Connection[Any]") -> bool:
    """Return what the host has told of itself, by itself, since its last answer."""
    told = connection.get_settings()
    return "on" in {getattr(told, name, "off") for name in ("in_hot_standby", "default_transaction_read_only")}


async def _connect(dsn: str) -> "asyncpg.Connection[Any]":
    import asyncpg

    connection = await asyncpg.connect(dsn, timeout=PATIENCE, server_settings=_KEPT_ALIVE)
    try:
        process = await connection.fetchval("SELECT pg_backend_pid()")
    except BaseException:
        # Also when whoever connects is cancelled: a server may stop as soon as it has started.
        connection.terminate()
        raise
    if connection.get_server_pid() != process:
        await connection.close()
        raise ValidationFailed(POOLED)
    if _is_read_only(connection):
        # It would be left again by the next look, which comes at once where a break wakes who looks.
        await connection.close()
        raise StoreUnavailable(TAKES_NO_WRITES)
    return connection


POOLED = (
    "the database is behind a connection pooler, which would lose the state of the session: set"
    " TREADLE_DATABASE_DIRECT_URL to PostgreSQL itself"
)


@asynccontextmanager
async def answers() -> AsyncIterator[None]:
    """Raise `StoreUnavailable` when the database does not answer within the block, or not in time.

    Raises `ValidationFailed` when it is a pool that answers, and takes no parameter of a session.
    """
    import asyncpg

    try:
        async with asyncio.timeout(PATIENCE):
            yield
    except asyncpg.ProtocolViolationError as error:
        # What pgbouncer answers to a parameter of the session.
        raise ValidationFailed(f"{POOLED} ({error})") from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise StoreUnavailable(told_of(error)) from error

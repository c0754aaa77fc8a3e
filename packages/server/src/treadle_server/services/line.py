"""A connection of its own to PostgreSQL, past any pool, for what a session keeps there: LISTEN, the leader's lock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from treadle_server.errors import StoreUnavailable, ValidationFailed
from treadle_server.store.engine import parse_url

if TYPE_CHECKING:
    import asyncpg

PATIENCE = 5.0
"""Seconds that the database has for an answer on such a connection."""

_KEPT_ALIVE = {
    "application_name": "treadle",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "2",
}
"""PostgreSQL ends the session of a machine that is gone within six seconds, and with it what the session held."""


class Line:
    """Connects when it is used, and again when it broke; `on_break` is called when it did."""

    def __init__(self, url: str, on_break: Callable[[], None]) -> None:
        self._dsn = parse_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._on_break = on_break
        self._connection: asyncpg.Connection[Any] | None = None
        self._opening = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Return whether there is a connection at this moment."""
        return self._connection is not None

    async def open(self) -> "asyncpg.Connection[Any]":
        """Return the connection.

        Raises `StoreUnavailable` when the database does not answer, and `ValidationFailed` when a pool that shares
        connections between its clients stands before it.
        """
        async with self._opening:
            if self._connection is None:
                async with answers():
                    connection = await _connect(self._dsn)
                connection.add_termination_listener(self._broke)
                self._connection = connection
            return self._connection

    def _broke(self, connection: object) -> None:
        if connection is self._connection:
            self._connection = None
            self._on_break()

    def drop(self) -> None:
        """Break the connection: what it leads to does not answer."""
        if self._connection is not None:
            self._connection.terminate()

    async def close(self) -> None:
        """Close the connection, and with it what its session held."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                async with answers():
                    await connection.close()
            except StoreUnavailable:
                connection.terminate()


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
    return connection


POOLED = (
    "a pool of connections stands before the database, and what a session keeps there would be lost: set"
    " TREADLE_DATABASE_DIRECT_URL to PostgreSQL itself"
)


@asynccontextmanager
async def answers() -> AsyncIterator[None]:
    """Raise `StoreUnavailable` when the database does not answer within the block, or not in time."""
    import asyncpg

    try:
        async with asyncio.timeout(PATIENCE):
            yield
    except asyncpg.ProtocolViolationError as error:
        # What pgbouncer answers to a parameter of the session.
        raise ValidationFailed(f"{POOLED} ({error})") from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise StoreUnavailable(f"the database does not answer ({error or type(error).__name__})") from error

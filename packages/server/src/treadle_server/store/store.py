"""The store on SQLAlchemy Core: opens the database, and turns its failures into `StoreUnavailable`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.errors import StoreUnavailable
from treadle_server.store.base import Dialect, Tx
from treadle_server.store.engine import open_engines, parse_url
from treadle_server.store.migrations import upgrade

RETRY_AFTER = 2.0
"""Seconds after which a client may try again when the database does not answer."""


@asynccontextmanager
async def _failures_explained() -> AsyncIterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError, PoolTimeout, ConnectionError) as error:
        raise _unavailable(error) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise _unavailable(error) from error
        raise


def _unavailable(error: Exception) -> StoreUnavailable:
    cause = getattr(error, "orig", None) or error
    return StoreUnavailable(
        f"the database does not answer ({cause}); nothing was changed, try again", retry_after=RETRY_AFTER
    )


class SqlStore:
    """Tasks in SQLite or PostgreSQL."""

    def __init__(self, url: str) -> None:
        self.url = parse_url(url)
        self.dialect = cast("Dialect", self.url.get_backend_name())
        self._writer, self._reader = open_engines(self.url)

    async def open(self) -> None:
        """Connect and bring the schema up to date. Raises `StoreUnavailable`."""
        async with _failures_explained():
            await upgrade(self._writer)
            async with self._reader.connect() as connection:
                await connection.execute(text("SELECT 1"))

    async def close(self) -> None:
        """Close every connection."""
        await self._reader.dispose()
        await self._writer.dispose()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Tx]:
        """Open a transaction that commits durably at the end of the block, or rolls back when it raises.

        Raises `StoreUnavailable` when the database does not answer.
        """
        async with _failures_explained(), self._writer.begin() as connection:
            yield Tx(connection, self.dialect)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Lend a connection that only reads. Raises `StoreUnavailable` when the database does not answer."""
        async with _failures_explained(), self._reader.connect() as connection:
            yield connection

    def connections_checked_out(self) -> int:
        """Return how many connections are lent at this moment; 0 when nothing runs."""
        return sum(engine.sync_engine.pool.checkedout() for engine in (self._writer, self._reader))  # type: ignore[attr-defined]

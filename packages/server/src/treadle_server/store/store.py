"""The store on SQLAlchemy Core: it opens the database and lends its connections."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from treadle_server.clock import Clock, SystemClock
from treadle_server.errors import StoreUnavailable
from treadle_server.store.base import Dialect, LostUpdate, Tx
from treadle_server.store.connections import (
    READERS,
    postgres_readers,
    postgres_writer,
    sqlite_reader,
    sqlite_readers,
    sqlite_writer,
)
from treadle_server.store.failures import COLLISIONS_EXPLAINED, FAILURES_EXPLAINED
from treadle_server.store.migrations import OWN_DATABASE, upgrade, warning_on_schemas
from treadle_server.store.postgres.additions import additions
from treadle_server.store.postgres.clock import DatabaseClock
from treadle_server.store.postgres.writer import TRIES, PostgresWriter
from treadle_server.store.reader_shares import ReaderShares
from treadle_server.store.sqlite.writer import InlineConnection, InlineWriter, Statements
from treadle_server.store.urls import parse_url

log = logging.getLogger(__name__)


class SqlStore:
    """Tasks in SQLite or PostgreSQL: one writing transaction at a time, and reads alongside it."""

    def __init__(self, url: str, *, is_pooled: bool = False, machine: Clock | None = None) -> None:
        """`is_pooled` says that the URL leads to a transaction pooler such as pgbouncer.

        `machine` is this machine's clock; PostgreSQL's store uses only its monotonic part. Raises `ValidationFailed`
        for the URL of an unknown database, and for a file or directory that can't be used.
        """
        self.clock: Clock = machine or SystemClock()
        """The store's clock, the same for all servers on one database. In a transaction it agrees with the database's
        clock."""
        self.url = parse_url(url)
        self.dialect = cast("Dialect", self.url.get_backend_name())
        self.is_shared = self.dialect == "postgresql"
        """Whether other servers may use the same database."""
        self._shares = ReaderShares(READERS - 1)
        self._writer: InlineWriter | PostgresWriter
        self._in_place: Engine | None = None
        if self.dialect == "sqlite":
            self._writer, self._reader = InlineWriter(sqlite_writer(self.url)), sqlite_readers(self.url)
            self._in_place, self._loose = sqlite_reader(self.url), self._reader
        else:
            self.clock = clock = DatabaseClock(machine)
            self._reader, self._loose = postgres_readers(self.url, is_pooled=is_pooled)
            writer = postgres_writer(self.url, is_pooled=is_pooled)
            self._writer = PostgresWriter(writer, clock, is_pooled=is_pooled, leave=self._reader.dispose)

    @property
    def outdated(self) -> str | None:
        """Return why this server may no longer write (the schema is another version's); None when it may."""
        return None if isinstance(self._writer, InlineWriter) else self._writer.outdated

    async def open(self) -> None:
        """Connect and bring the schema up to date.

        Raises `StoreUnavailable`, `DatabaseIsNewer`, and `LostUpdate` when older servers interfered with every attempt.
        """
        for left in reversed(range(TRIES)):
            try:
                await self._upgrade()
                break
            except LostUpdate:
                # The migration changed a table that an older server was still reading.
                if not left:
                    raise
        async with self.read() as connection:
            await connection.execute(text("SELECT 1"))

    async def _upgrade(self) -> None:
        begun = self._writer.begin() if isinstance(self._writer, InlineWriter) else self._writer.begin(is_first=True)
        with FAILURES_EXPLAINED, COLLISIONS_EXPLAINED:
            async with begun as connection:
                await connection.run_sync(upgrade)
                if (said := await connection.run_sync(warning_on_schemas)) is not None:
                    log.warning("%s: %s", said, OWN_DATABASE)

    async def close(self) -> None:
        """Close every connection."""
        await self._reader.dispose()
        if self._in_place is not None:
            self._in_place.dispose()
        if isinstance(self._writer, InlineWriter):
            self._writer.close()
        else:
            await self._writer.close()

    @asynccontextmanager
    async def write(self, *, after: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[Tx]:
        """Open a transaction that commits durably at the end of the block, or rolls back when it raises.

        `after` is called and awaited before anything is sent to the database, which on PostgreSQL is only with the
        first statement. Raises `StoreUnavailable` when the database does not answer, and `LostUpdate` when the
        transaction gave way to another server's.
        """
        if isinstance(self._writer, InlineWriter):
            if after is not None:
                await after()
            with FAILURES_EXPLAINED:
                async with self._writer.begin() as inline:
                    yield Tx(inline, self.dialect, inline.data_version())
        else:
            with FAILURES_EXPLAINED, COLLISIONS_EXPLAINED:
                async with self._writer.begin(after=after) as direct:
                    yield Tx(direct, self.dialect, direct.version)

    async def seek_exclusive(self) -> None:
        """On PostgreSQL, try to become the only server that writes, so that the writer may remember what it wrote.

        This may fail silently, and ends when another server writes. Raises `StoreUnavailable`.
        """
        if not isinstance(self._writer, InlineWriter):
            with FAILURES_EXPLAINED:
                await self._writer.seek_exclusive()

    async def read_clock(self) -> None:
        """Synchronise `clock` with the database's; SQLite uses the machine's clock. Raises `StoreUnavailable`."""
        if not isinstance(self._writer, InlineWriter):
            with FAILURES_EXPLAINED:
                await self._writer.read_clock()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Lend a read connection, whose statements all see what was committed when the first one began.

        Raises `StoreUnavailable` when the database does not answer, and `TooManyRequests` when the current user
        (`reader_shares.asking`) has too many reads waiting.
        """
        with FAILURES_EXPLAINED:
            async with self._shares.place(), self._reader.connect() as connection:
                yield connection

    @asynccontextmanager
    async def read_loosely(self) -> AsyncIterator[AsyncConnection]:
        """Lend a read connection for one statement, or for several whose answers need not be of one moment.

        On PostgreSQL it saves two round trips. Raises as `read`.
        """
        with FAILURES_EXPLAINED:
            async with self._shares.place(), self._loose.connect() as connection:
                yield connection

    @asynccontextmanager
    async def read_in_place(self) -> AsyncIterator[Statements]:
        """Lend a connection for a few rows that are needed at once; SQLite reads them on the event loop.

        A round trip to a thread waits for whatever the loop is busy with: for many tasks that woke at once, reads for
        the first claims came 0.15 s later, behind four batches. While the connection is lent, await nothing else.
        Raises `StoreUnavailable` when the database does not answer.
        """
        if self._in_place is None:
            async with self.read_loosely() as connection:
                yield connection
            return
        with FAILURES_EXPLAINED, self._in_place.connect() as inline:
            yield InlineConnection(inline)

    async def additions(self) -> list[str]:
        """Return what somebody has added to Treadle's tables on PostgreSQL, where that can be read."""
        if self.dialect == "sqlite":
            return []
        with suppress(StoreUnavailable):
            async with self.read_loosely() as connection:
                return await connection.run_sync(additions)
        return []

    def connections_checked_out(self) -> int:
        """Return how many connections are lent now; 0 when nothing is running."""
        return _checked_out(self._reader) + self._writer.is_lent


def _checked_out(engine: AsyncEngine) -> int:
    return engine.sync_engine.pool.checkedout()  # type: ignore[attr-defined, no-any-return]

"""The store on SQLAlchemy Core: opens the database, and lends its connections."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from treadle_server.clock import Clock, SystemClock
from treadle_server.store.base import Dialect, LostUpdate, Tx
from treadle_server.store.connections import (
    READERS,
    postgres_readers,
    postgres_writer,
    sqlite_reader,
    sqlite_readers,
    sqlite_writer,
)
from treadle_server.store.failures import COLLISIONS_TOLD, FAILURES_EXPLAINED
from treadle_server.store.migrations import OWN_DATABASE, said_of_schemas, upgrade
from treadle_server.store.postgres.clock import DatabaseClock
from treadle_server.store.postgres.writer import TRIES, PostgresWriter
from treadle_server.store.reader_shares import ReaderShares
from treadle_server.store.sqlite.writer import InlineConnection, InlineWriter, Statements
from treadle_server.store.urls import parse_url

log = logging.getLogger(__name__)


class SqlStore:
    """Tasks in SQLite or PostgreSQL: one transaction at a time for the writer, reads beside it."""

    def __init__(self, url: str, *, is_pooled: bool = False, machine: Clock | None = None) -> None:
        """With `is_pooled` the URL leads to a pool that gives a connection for the length of a transaction.

        `machine` is this machine's clock; of it PostgreSQL's store takes what never jumps alone. Raises
        `ValidationFailed` for a URL of no database that is known, and for a file or directory that can't be used.
        """
        self.clock: Clock = machine or SystemClock()
        """The store's clock: one for all servers on one database. In a transaction it shows what the database shows."""
        self.url = parse_url(url)
        self.dialect = cast("Dialect", self.url.get_backend_name())
        self.is_shared = self.dialect == "postgresql"
        """Whether other servers may use the same database."""
        self._shares = ReaderShares(READERS - 1)
        self._writer: InlineWriter | PostgresWriter
        self._in_place: Engine | None = None
        if self.dialect == "sqlite":
            self._writer, self._reader = InlineWriter(sqlite_writer(self.url)), sqlite_readers(self.url)
            self._in_place = sqlite_reader(self.url)
        else:
            self.clock = clock = DatabaseClock(machine)
            self._reader = reader = postgres_readers(self.url, is_pooled=is_pooled)
            writer = postgres_writer(self.url, is_pooled=is_pooled)
            self._writer = PostgresWriter(writer, clock, is_pooled=is_pooled, leave=reader.dispose)

    @property
    def outdated(self) -> str | None:
        """Return why this server may not write any more: a newer one has migrated the database."""
        return None if isinstance(self._writer, InlineWriter) else self._writer.outdated

    async def open(self) -> None:
        """Connect and bring the schema up to date.

        Raises `StoreUnavailable`, `DatabaseIsNewer`, and `LostUpdate` when older servers were in the way every time.
        """
        for left in reversed(range(TRIES)):
            try:
                await self._upgrade()
                break
            except LostUpdate:
                # A table was changed while an older server's requests still read it.
                if not left:
                    raise
        async with self.read() as connection:
            await connection.execute(text("SELECT 1"))

    async def _upgrade(self) -> None:
        begun = self._writer.begin() if isinstance(self._writer, InlineWriter) else self._writer.begin(is_first=True)
        with FAILURES_EXPLAINED, COLLISIONS_TOLD:
            async with begun as connection:
                await connection.run_sync(upgrade)
                if (said := await connection.run_sync(said_of_schemas)) is not None:
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

        What `after` gives is awaited before anything is asked of the database, which on PostgreSQL is done late: by the
        first statement. Raises `StoreUnavailable` when the database does not answer, and `LostUpdate` when it gave way
        to another server's transaction.
        """
        if isinstance(self._writer, InlineWriter):
            if after is not None:
                await after()
            with FAILURES_EXPLAINED:
                async with self._writer.begin() as inline:
                    yield Tx(inline, self.dialect, inline.data_version())
        else:
            with FAILURES_EXPLAINED, COLLISIONS_TOLD:
                async with self._writer.begin(after=after) as direct:
                    yield Tx(direct, self.dialect, direct.version)

    async def seek_exclusive(self) -> None:
        """PostgreSQL: become the only one that writes, so that the writer may remember what it wrote.

        It is so until another server writes, and need not come true. Raises `StoreUnavailable`.
        """
        if not isinstance(self._writer, InlineWriter):
            with FAILURES_EXPLAINED:
                await self._writer.seek_exclusive()

    async def read_clock(self) -> None:
        """Have `clock` show what the store's clock shows now; SQLite's is the machine's. Raises `StoreUnavailable`."""
        if not isinstance(self._writer, InlineWriter):
            with FAILURES_EXPLAINED:
                await self._writer.read_clock()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Lend a connection that only reads, and sees what is committed.

        Raises `StoreUnavailable` when the database does not answer, and `TooManyRequests` when the user who asks
        (`reader_shares.asking`) has too many reads waiting.
        """
        with FAILURES_EXPLAINED:
            async with self._shares.place(), self._reader.connect() as connection:
                yield connection

    @asynccontextmanager
    async def read_in_place(self) -> AsyncIterator[Statements]:
        """Lend a connection as `read` does, for few rows that are wanted at once: SQLite's reads on the event loop.

        Each way to a thread and back waits for whatever the loop is at: what was read so for the first claims of many
        tasks that woke at once came 0.15 s later, behind four batches. Nothing else may be waited for while it is lent.
        Raises `StoreUnavailable` when the database does not answer.
        """
        if self._in_place is None:
            async with self.read() as connection:
                yield connection
            return
        with FAILURES_EXPLAINED, self._in_place.connect() as inline:
            yield InlineConnection(inline)

    def connections_checked_out(self) -> int:
        """Return how many connections are lent at this moment; 0 when nothing runs."""
        return _checked_out(self._reader) + self._writer.is_lent


def _checked_out(engine: AsyncEngine) -> int:
    return engine.sync_engine.pool.checkedout()  # type: ignore[attr-defined, no-any-return]

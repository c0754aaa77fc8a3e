"""The store on SQLAlchemy Core: opens the database, and turns its failures into `StoreUnavailable`."""

import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from treadle_server.clock import Clock, SystemClock
from treadle_server.errors import StoreUnavailable
from treadle_server.store.base import Dialect, LostUpdate, Tx
from treadle_server.store.connections import (
    postgres_readers,
    postgres_writer,
    sqlite_reader,
    sqlite_readers,
    sqlite_writer,
)
from treadle_server.store.migrations import OWN_DATABASE, said_of_schemas, upgrade
from treadle_server.store.postgres.clock import DatabaseClock
from treadle_server.store.postgres.connection import DirectConnection
from treadle_server.store.postgres.writer import TRIES, PostgresWriter
from treadle_server.store.sqlite.writer import InlineConnection, InlineWriter, Statements
from treadle_server.store.translated import Translated
from treadle_server.store.urls import parse_url

log = logging.getLogger(__name__)

RETRY_AFTER = 2.0
"""Seconds after which a client may try again when the database does not answer."""


_BROKEN_OFF = frozenset({"40001", "40P01"})
"""PostgreSQL's serialization_failure and deadlock_detected."""


_OUT_OF_ORDER = frozenset({"08", "28", "3D", "53", "57", "58", "XX"})
"""Classes of PostgreSQL's states: connection lost, user refused, no such database, out of resources, operator's
intervention, error of the system, and of its own, such as damaged data."""

_REFUSED = frozenset({"25006", "3F000", "42501", "42704", "42P01", "55P03"})
"""PostgreSQL's read_only_sql_transaction, invalid_schema_name, insufficient_privilege, undefined_object,
undefined_table and lock_not_available: what its operator has set up, or another session does, and nothing was done."""

_NOT_WRITTEN = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY})
"""SQLite's codes of a commit of which the end was not written, so that it was not done: a disk that is full, a lock."""

_BROKEN = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})
"""SQLite's codes of errors that are none of the operation's."""


def _state(error: DBAPIError) -> str:
    """Return PostgreSQL's five characters; empty for another error."""
    return str(getattr(error.orig, "sqlstate", None) or "")


def _code(error: BaseException) -> int:
    """Return SQLite's primary error code; 0 for another error."""
    return int(getattr(getattr(error, "orig", None) or error, "sqlite_errorcode", 0)) & 0xFF


def _explained(error: BaseException) -> StoreUnavailable | None:
    if isinstance(error, OperationalError | InterfaceError | PoolTimeout | OSError):
        # OSError: nobody listens there, or its socket's file is gone.
        return _unavailable(error)
    if isinstance(error, sqlite3.DatabaseError):  # what the writer asks of the driver itself
        return _unavailable(error) if _code(error) in _BROKEN else None
    is_down = (
        isinstance(error, DBAPIError)
        and (
            error.connection_invalidated
            # It let nobody connect, for whatever reason: no host of several takes writes, or it is closed for repairs.
            or error.statement is None
            or _state(error)[:2] in _OUT_OF_ORDER
            # Of what only reads, which nothing does anew by itself.
            or _state(error) in _REFUSED | _BROKEN_OFF
            or _code(error) in _BROKEN
        )
    )
    return _unavailable(error) if is_down else None


FAILURES_EXPLAINED = Translated(_explained)
"""Raises `StoreUnavailable`, with advice, for what a database raises that does not answer."""


def _collision(error: BaseException) -> LostUpdate | None:
    if isinstance(error, DBAPIError) and _state(error) in _BROKEN_OFF:
        return LostUpdate(f"another server was faster ({error.orig})")
    return None


_COLLISIONS_TOLD = Translated(_collision)
"""Raises `LostUpdate` for a transaction that PostgreSQL broke off in favour of another: it can be done anew."""


_FULL = "the database's disk is full: make room on it"

_DAMAGED = "the database is damaged: stop the server, look at its disk, and restore the backup"

_STRANGER = "the database refuses the user: look at user and password in its URL, and at pg_hba.conf"

_PARAMETERS = "the database does not take what it is asked for: look at the parameters of its URL"

_ADVICE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_BUSY: "another process keeps the database locked: end it, or wait for it",
    sqlite3.SQLITE_LOCKED: "another process keeps the database locked: end it, or wait for it",
    sqlite3.SQLITE_IOERR: "the database's disk can't be read or written: look at it, and whether it is full",
    sqlite3.SQLITE_CANTOPEN: "the database's file can't be opened: look at its path, and at the permissions there",
    sqlite3.SQLITE_NOTADB: "the database's file is none of SQLite's: look at its path",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_READONLY: "the database may not be written: look at the permissions of its file and directory",
    "25006": "the database takes no writes: it is a standby, or default_transaction_read_only is set",
    "28000": _STRANGER,
    "28P01": _STRANGER,
    "3D000": "the database is not there: make it with CREATE DATABASE, or look at its name in the URL",
    "3F000": "the database has no schema to make tables in: look at its search_path, and at the role's",
    "42501": "the role may not do in the database what is needed: make it the owner of the database or its schema",
    "22023": _PARAMETERS,
    "42704": _PARAMETERS,
    "42P01": "a table is not there: look at the database's search_path, and whether somebody restores it",
    "53100": _FULL,
    "53300": "the database takes no more connections: raise max_connections, or the role's limit, or put pgbouncer"
    " before it",
    "55000": "the database takes no connections: look whether somebody restores or drops it (ALLOW_CONNECTIONS)",
    "55P02": _PARAMETERS,
    "55P03": "another session keeps locked in the database what is needed: pg_locks and pg_stat_activity say which; end"
    " it, or wait for it",
    "57014": "the database broke off what it was asked: look at the statement_timeout of the role and the database, and"
    " whether somebody cancels it",
    "XX001": _DAMAGED,
    "XX002": "an index of the database is damaged: REINDEX DATABASE makes it anew; look at its disk",
}
"""What to do, by SQLite's primary code or PostgreSQL's state."""


def in_brief(error: BaseException) -> str:
    """Return what the database said, without the statement and what was to be written: that is nobody's to read.

    PostgreSQL's details and hints are lines of their own behind it: a log has one for each event.
    """
    if isinstance(error, PoolTimeout):
        return "each connection to it was in use for as long as one is waited for"
    cause = getattr(error, "orig", None) or error
    return str(cause).partition("\n")[0] or type(cause).__name__


def _unavailable(error: BaseException) -> StoreUnavailable:
    state = _state(error) if isinstance(error, DBAPIError) else ""
    what = _ADVICE.get(state or _code(error), "the database does not answer")
    # A connection that broke after it was asked to commit: what is sent again with the same id is done once.
    is_refused = state in _REFUSED or _code(error) in _NOT_WRITTEN
    is_unknown = getattr(error, "statement", None) == "COMMIT" and not is_refused
    done = "whether it was done is not known" if is_unknown else "nothing was changed"
    return StoreUnavailable(f"{what} ({in_brief(error)}); {done}, try again", retry_after=RETRY_AFTER)


def _tx(direct: DirectConnection) -> Tx:
    def beside() -> Tx | None:
        reading = direct.beside
        return None if reading is None else Tx(cast("Statements", reading), "postgresql", direct.version)

    return Tx(
        cast("Statements", direct), "postgresql", direct.version, lambda: direct.is_begun, beside, direct.heed_clock
    )


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
        with FAILURES_EXPLAINED, _COLLISIONS_TOLD:
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
            with FAILURES_EXPLAINED, _COLLISIONS_TOLD:
                async with self._writer.begin(after=after) as direct:
                    yield _tx(direct)

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

        Raises `StoreUnavailable` when the database does not answer.
        """
        with FAILURES_EXPLAINED:
            async with self._reader.connect() as connection:
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

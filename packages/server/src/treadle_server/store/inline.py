"""SQLite's writer: one connection, used on the event loop's own thread, committed on another.

A statement takes SQLite 10 to 30 microseconds; handing it to a thread and waiting for the answer takes ten times that.
One submit needs 27 such hand-overs: 4.4 ms of processor time, against 1.3 ms with statements that run where they are
called (both in one run, 2 cores; a drain through the engine: 3,500 against 6,100 tasks a second). Only what may really
wait goes elsewhere: the commit, which syncs the disk, runs on a thread, and a database that another process has locked
is asked for again with growing pauses.
"""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeAlias, TypeVar

from sqlalchemy import Connection, CursorResult, Dialect, Engine, Executable
from sqlalchemy.exc import OperationalError

T = TypeVar("T")

Rows: TypeAlias = CursorResult[*tuple[Any, ...]]

FIRST_PAUSE = 0.01
"""Seconds before a locked database is asked for again; each pause doubles, with jitter (Z9)."""

TRIES = 10
"""How often it is asked before the writer gives up: about ten seconds in all."""


class Statements(Protocol):
    """An open transaction, as the store uses it: SQLAlchemy's `AsyncConnection`, or `InlineConnection`."""

    @property
    def dialect(self) -> Dialect:
        """Return the SQL dialect."""
        ...

    async def execute(self, statement: Executable, parameters: Any = None, /) -> Rows:
        """Run a statement; a list of parameters runs it for each."""
        ...

    async def exec_driver_sql(self, statement: str, parameters: Any = None, /) -> Rows:
        """Run SQL as the driver takes it."""
        ...

    async def run_sync(self, function: Callable[[Connection], T], /) -> T:
        """Call `function` with a connection that is not asynchronous."""
        ...


class InlineConnection:
    """An open transaction on SQLite's writer; none of its methods waits."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def dialect(self) -> Dialect:
        """Return the SQL dialect."""
        return self._connection.dialect

    async def execute(self, statement: Executable, parameters: Any = None, /) -> Rows:
        """Run a statement; a list of parameters runs it for each."""
        return self._connection.execute(statement, parameters)

    async def exec_driver_sql(self, statement: str, parameters: Any = None, /) -> Rows:
        """Run SQL as the driver takes it."""
        return self._connection.exec_driver_sql(statement, parameters)

    async def run_sync(self, function: Callable[[Connection], T], /) -> T:
        """Call `function` with the connection."""
        return function(self._connection)


class InlineWriter:
    """Lends the one connection that writes, a transaction at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turn = asyncio.Lock()
        self._committer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="treadle-commit")

    @property
    def is_lent(self) -> bool:
        """Return whether a transaction is open."""
        return self._turn.locked()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[InlineConnection]:
        """Open a transaction that commits durably at the end of the block, or rolls back when it raises.

        Raises SQLAlchemy's `OperationalError` when another process keeps the database locked.
        """
        async with self._turn:
            with self._engine.connect() as connection:
                await _lock(connection)
                transaction = connection.begin()
                try:
                    yield InlineConnection(connection)
                except BaseException:
                    transaction.rollback()
                    raise
                await self._commit(transaction.commit)

    async def _commit(self, commit: Callable[[], None]) -> None:
        """Commit on a thread, and wait for it even when the caller is cancelled: what was begun is to be known."""
        done = asyncio.get_running_loop().run_in_executor(self._committer, commit)
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            await done
            raise

    def close(self) -> None:
        """Close the connection."""
        self._committer.shutdown()
        self._engine.dispose()


async def _lock(connection: Connection) -> None:
    """Take SQLite's write lock, before anything is read: who finds out late that it is taken could not wait for it."""
    driver: Any = connection.connection.driver_connection
    for attempt in range(TRIES):
        try:
            driver.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if attempt == TRIES - 1 or error.sqlite_errorcode & 0xFF not in {
                sqlite3.SQLITE_BUSY,
                sqlite3.SQLITE_LOCKED,
            }:
                raise OperationalError("BEGIN IMMEDIATE", {}, error) from error
            await asyncio.sleep(FIRST_PAUSE * 2**attempt * (0.5 + random.random()))
        else:
            return

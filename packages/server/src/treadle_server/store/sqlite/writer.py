"""SQLite's writer: one connection that runs statements on the event loop's own thread, and slow commits on another.

A statement takes SQLite 10 to 30 microseconds; handing it to a thread and waiting for the answer takes ten times that.
A submit needed 27 such hand-overs: 4.4 ms of processor time, against 1.3 ms with statements run in place (both in one
run, 2 cores; a drain through the engine: 3,500 against 6,100 tasks a second). A commit syncs the disk: it runs in place
too where that is quicker than a round trip to a thread, and on a thread where the disk is slow. When another process
has locked the database, the writer retries with growing pauses.
"""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache
from itertools import chain
from time import perf_counter
from typing import Any, Protocol, TypeAlias, TypeVar

from sqlalchemy import Connection, CursorResult, Engine, Executable
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from treadle_server.store.sqlite.places import FilesInPlace

T = TypeVar("T")

Rows: TypeAlias = CursorResult[*tuple[Any, ...]]

FIRST_PAUSE = 0.01
"""Seconds before the first retry on a locked database; each pause doubles, with jitter (Z9)."""

TRIES = 10
"""Attempts before the writer gives up: about ten seconds in all."""


QUICK = 0.005
"""Seconds; a quicker commit is not worth a thread, because a busy loop takes up to 5 ms to resume after one. With a
disk that syncs in 0.4 ms a drain went from 14,000 to 18,000 tasks/s when commits of 1 to 2 ms, of some hundred tasks
each, moved from the thread to the loop."""

LARGE = 5_000
"""Rows of a transaction whose commit is worth a thread however quick the disk is: a commit of 50,000 webhook
deliveries, with the checkpoint after it, took half a second."""

LOOK_AGAIN = 200
"""Commits on the thread after which one is tried in place, to see whether the disk is quick again."""


MOST_TOGETHER = 64
"""Rows in one statement at most: each number of rows makes another text, which the driver caches."""

MOST_TEXTS = 512
"""Size of the caches of statement texts, here and in the driver; the least recently used are dropped."""


class Statements(Protocol):
    """An open transaction, as the store uses it: SQLAlchemy's `AsyncConnection`, or `InlineConnection`."""

    async def execute(self, statement: Executable, parameters: Any = None, /) -> Rows:
        """Run a SQLAlchemy statement; with a list of parameters, once for each."""
        ...

    async def exec_driver_sql(self, statement: str, parameters: Any = None, /) -> Rows:
        """Run SQL text, with parameters in the driver's style."""
        ...

    async def run_sync(self, function: Callable[[Connection], T], /) -> T:
        """Call `function` with a connection that is not asynchronous."""
        ...


class InlineConnection:
    """SQLite's writer in a transaction; none of its methods actually waits."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        self.driver = driver

    async def execute(self, statement: Executable, parameters: Any = None, /) -> Rows:
        """Run a SQLAlchemy statement; with a list of parameters, once for each."""
        return self._connection.execute(statement, parameters)

    async def exec_driver_sql(self, statement: str, parameters: Any = None, /) -> Rows:
        """Run SQL text, with parameters in the driver's style."""
        return self._connection.exec_driver_sql(statement, parameters)

    async def run_sync(self, function: Callable[[Connection], T], /) -> T:
        """Call `function` with the connection."""
        return function(self._connection)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def data_version(self) -> int | None:
        """Return a number that stays the same while no other connection writes."""
        [(version,)] = self.fetch("PRAGMA data_version")
        return int(version)

    def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run SQL on the driver itself and return its raw rows; for the hot path."""
        try:
            return self.driver.execute(statement, parameters).fetchall()
        except _NAMED as error:
            raise _named(statement, error) from error

    def run_many(self, statement: str, rows: Iterable[Sequence[Any] | Mapping[str, Any]]) -> int:
        """Run SQL on the driver itself once for each row of parameters, and return how many rows were changed in all.

        The parameters are a sequence for `?`, or a mapping for `:name`; newer Pythons refuse a sequence for `?1`.
        """
        try:
            return self.driver.executemany(statement, rows).rowcount
        except _NAMED as error:
            raise _named(statement, error) from error

    def run_together(self, statement: str, shared: Sequence[Any], rows: Sequence[Sequence[Any]]) -> int:
        """Run SQL on the driver itself for all rows of parameters together, and return how many rows were changed.

        `{rows}` in it becomes a VALUES list of them, with columns `column1` and so on; `shared` are the parameters
        before it. Run once for each row, SQLite opens some twenty indexes each time: a claim took 5.3 microseconds, and
        now takes 3.5.
        """
        return sum(done.rowcount for done in self._together(statement, shared, rows))

    def fetch_together(
        self, statement: str, shared: Sequence[Any], rows: Sequence[Sequence[Any]]
    ) -> list[tuple[Any, ...]]:
        """Run such a query, and return the rows that it finds."""
        return [row for done in self._together(statement, shared, rows) for row in done.fetchall()]

    def _together(
        self, statement: str, shared: Sequence[Any], rows: Sequence[Sequence[Any]]
    ) -> Iterator[sqlite3.Cursor]:
        for first in range(0, len(rows), MOST_TOGETHER):
            some = rows[first : first + MOST_TOGETHER]
            text = _with_rows(statement, len(some), len(some[0]))
            try:
                done = self.driver.execute(text, (*shared, *chain.from_iterable(some)))
            except _NAMED as error:
                raise _named(text, error) from error
            yield done


@lru_cache(maxsize=MOST_TEXTS)
def _with_rows(statement: str, count: int, width: int) -> str:
    """Return the statement with `count` rows of `width` parameters."""
    row = f"({', '.join('?' * width)})"
    return statement.format(rows=f"(VALUES {', '.join([row] * count)})")


_NAMED = (sqlite3.IntegrityError, sqlite3.OperationalError)


def _named(statement: str, error: sqlite3.Error) -> DBAPIError:
    """Return a driver's error as SQLAlchemy's, so that one place can classify both."""
    kind = IntegrityError if isinstance(error, sqlite3.IntegrityError) else OperationalError
    return kind(statement, None, error)


class InlineWriter:
    """Lends the only writing connection, one transaction at a time, and sends BEGIN, COMMIT and ROLLBACK itself."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: InlineConnection | None = None
        self._files = FilesInPlace(engine.url.database)
        self._turn = asyncio.Lock()
        self._pace = 0.0
        """Smoothed seconds that a commit in place takes."""
        self._threaded = 0
        self._committer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="treadle-commit")

    @property
    def is_lent(self) -> bool:
        """Return whether a transaction is open."""
        return self._turn.locked()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[InlineConnection]:
        """Open a transaction that commits durably at the end of the block, or rolls back when it raises.

        Raises SQLAlchemy's `OperationalError` when another process keeps the database locked, and `FilesMoved`.
        """
        async with self._turn:
            if self._connection is None:
                self._connection = InlineConnection(self._engine.connect())
            driver = self._connection.driver
            await _lock(driver)
            before = driver.total_changes
            try:
                self._files.check()
                yield self._connection
                try:
                    await self._commit(driver.commit, driver.total_changes - before)
                except _NAMED as error:
                    raise _named("COMMIT", error) from error
            except BaseException:
                if driver.in_transaction:
                    driver.rollback()
                raise

    async def _commit(self, commit: Callable[[], None], rows: int) -> None:
        if rows >= LARGE:
            await self._commit_on_thread(commit)
        elif self._pace < QUICK or self._threaded >= LOOK_AGAIN:
            began = perf_counter()
            commit()
            took = min(perf_counter() - began, 2 * QUICK)
            # After many on the thread, a single commit in place replaces the old average.
            self._pace = took if self._threaded else self._pace + (took - self._pace) * 0.1
            self._threaded = 0
        else:
            self._threaded += 1
            await self._commit_on_thread(commit)

    async def _commit_on_thread(self, commit: Callable[[], None]) -> None:
        """Wait for the commit even when the caller is cancelled, so that its outcome is known."""
        done = asyncio.get_running_loop().run_in_executor(self._committer, commit)
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            await done
            raise

    def close(self) -> None:
        """Close the connection."""
        self._committer.shutdown()
        if self._connection is not None:
            self._connection.close()
        self._engine.dispose()


async def _lock(driver: sqlite3.Connection) -> None:
    """Take SQLite's write lock before reading anything: a transaction that read first could not wait for it later."""
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

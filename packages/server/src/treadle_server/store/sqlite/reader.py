"""SQLite's read connections: aiosqlite's, with one round trip to the thread for each statement.

Through SQLAlchemy a statement takes four round trips, to open the cursor, execute, fetch and close it, and a BEGIN as
many, and each answer waits until the loop is done with whatever it is busy with. During a drain, whose batches keep the
loop busy for 10 to 20 ms each, a request with a single read took nine round trips, and now takes two.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Self

import aiosqlite
from aiosqlite.core import _STOP_RUNNING_SENTINEL

Rows = list[tuple[Any, ...]]

AGAIN = 0.01
"""Seconds between attempts to interrupt a statement."""


class _Done(NamedTuple):
    """The result of a statement."""

    rows: Rows
    description: Any
    rowcount: int
    lastrowid: int | None


class ReadingConnection(aiosqlite.Connection):
    """A connection whose cursors fetch all rows at once."""

    is_to_begin = False
    """Whether the next statement begins a transaction."""
    _is_begun = False

    @classmethod
    def made(cls, *args: Any, **options: Any) -> "ReadingConnection":
        """Return a connection that is opened when it is awaited; takes the arguments of `sqlite3.connect`."""
        made = cls(partial(sqlite3.connect, *args, **options), iter_chunk_size=1)
        made._thread.daemon = True  # as SQLAlchemy does
        return made

    def cursor(self) -> "_Cursor":  # type: ignore[override]
        """Return a cursor, without a round trip to the thread."""
        return _Cursor(self)

    async def done(self, statement: str, parameters: Sequence[Any], *, is_many: bool) -> _Done:
        """Run a statement, after a BEGIN if one is due, and return its result.

        When the caller is cancelled the statement is interrupted: otherwise its thread would go on, and outlive the
        loop that it answers to.
        """
        begins, self.is_to_begin = self.is_to_begin, False
        self._is_begun = self._is_begun or begins
        run = partial(_run, is_many=is_many, begins=begins)
        try:
            done: _Done = await self._execute(run, self._conn, statement, parameters)
        except asyncio.CancelledError:
            await self._break_off()
            raise
        return done

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self._running or self._connection is None:
            raise ValueError("Connection closed")
        return await self._asked(partial(fn, *args, **kwargs))

    async def _connect(self) -> Self:
        try:
            await self._asked(self._open)
        except BaseException:
            self.stop()
            raise
        return self

    def _open(self) -> None:
        self._connection = self._connector()

    def _asked(self, function: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Make the thread call a function, and return a future of its result.

        The loop may be closed by the time it answers, if the caller was cancelled and nobody waited for the rest.
        """
        answer = asyncio.get_running_loop().create_future()
        self._tx.put_nowait((None, partial(_answer, answer, function)))
        return answer

    async def _break_off(self) -> None:
        """Interrupt the current statement, and wait until it is over: that is when a no-op queued after it is done."""
        if self._connection is None or not self._running:
            return  # closed meanwhile, which ends the statement
        behind = asyncio.ensure_future(self._execute(_nothing))
        while not behind.done():
            # Repeatedly, because SQLite can't interrupt a statement that has not begun yet.
            self._connection.interrupt()
            await asyncio.wait([behind], timeout=AGAIN)

    def stop(self) -> None:
        """Make the thread close the connection and end. Nothing is answered, because the loop may be closed by then."""
        self._running = False
        self._tx.put_nowait((None, self._stopped))

    def _stopped(self) -> object:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        return _STOP_RUNNING_SENTINEL

    async def rollback(self) -> None:
        """End the transaction, if one was begun."""
        was_begun, self._is_begun, self.is_to_begin = self._is_begun, False, False
        if was_begun:
            await super().rollback()


def _answer(answer: "asyncio.Future[Any]", function: Callable[[], Any]) -> None:
    try:
        told = partial(_tell, answer.set_result, function())
    except BaseException as error:  # noqa: BLE001 - passed on to the caller
        told = partial(_tell, answer.set_exception, error)
    with suppress(RuntimeError):  # the loop is closed: nobody waits for the answer
        answer.get_loop().call_soon_threadsafe(told, answer)


def _tell(tell: Callable[[Any], None], told: Any, answer: "asyncio.Future[Any]") -> None:
    if not answer.done():
        tell(told)


def _nothing() -> None: ...


def _run(
    connection: sqlite3.Connection, statement: str, parameters: Sequence[Any], *, is_many: bool, begins: bool
) -> _Done:
    if begins:
        connection.execute("BEGIN")
    run = connection.executemany if is_many else connection.execute
    cursor = run(statement, parameters)
    try:
        rows: Rows = [] if cursor.description is None else cursor.fetchall()
        return _Done(rows, cursor.description, cursor.rowcount, cursor.lastrowid)
    finally:
        cursor.close()


class _Cursor:
    """The part of aiosqlite's cursor that SQLAlchemy uses."""

    arraysize = 1

    def __init__(self, connection: ReadingConnection) -> None:
        self._connection = connection
        self._done = _Done([], None, -1, None)

    async def __aenter__(self) -> Self:
        return self

    @property
    def description(self) -> Any:
        return self._done.description

    @property
    def rowcount(self) -> int:
        return self._done.rowcount

    @property
    def lastrowid(self) -> int | None:
        return self._done.lastrowid

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> "_Cursor":
        self._done = await self._connection.done(statement, parameters, is_many=False)
        return self

    async def executemany(self, statement: str, parameters: Iterable[Sequence[Any]]) -> "_Cursor":
        self._done = await self._connection.done(statement, list(parameters), is_many=True)
        return self

    async def fetchall(self) -> Rows:
        return self._done.rows

    async def close(self) -> None:
        self._done = self._done._replace(rows=[])

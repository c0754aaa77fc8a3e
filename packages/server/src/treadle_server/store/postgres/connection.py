"""A transaction of PostgreSQL's writer: on the driver itself, and for rare statements through SQLAlchemy.

Both use the same connection. A statement's round trip takes 0.27 ms through SQLAlchemy's asyncpg adapter, and 0.09 ms
on the driver (`SELECT $1, $2` over a Unix socket, 2 cores, a thousand each in one run).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Executable
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.store.failures import function_of
from treadle_server.store.postgres.changes import Change
from treadle_server.store.sqlite.writer import Rows
from treadle_server.store.translated import LostUpdate, named

if TYPE_CHECKING:
    import asyncpg

T = TypeVar("T")

CHANGED = "tasks were changed by another writer"

UNBELIEVED = "the clock was set, or another server has written, since this server last looked"

Opened = tuple[AsyncConnection, "asyncpg.Connection[Any]"]
"""A connection in a transaction, as SQLAlchemy's object and as the driver's."""


class Alone(NamedTuple):
    """How to run a statement that needs no transaction around it."""

    write: Callable[[Change], Awaitable[bool]]
    """Writes the change durably; returns False, with nothing done, when it needs a transaction after all."""
    read: Callable[[str, Sequence[Any]], Awaitable["Sequence[Sequence[Any]]"]]
    """Returns the rows of a statement with these values."""


class Beside(NamedTuple):
    """Reads outside of a transaction, which may be committing at the same time."""

    alone: Alone

    async def fetch(
        self, statement: str, values: Sequence[Any] = (), *, is_independent: bool
    ) -> "Sequence[Sequence[Any]]":
        """Run SQL on the driver itself and return its rows; only for reads that are `is_independent`."""
        assert is_independent
        return await self.alone.read(statement, values)


class DirectConnection:
    """A transaction of the writer on PostgreSQL, begun just before its first statement.

    Changes of tasks are postponed and merged into few statements: each round trip costs both sides 0.1 ms.
    """

    def __init__(
        self,
        begin: Callable[[], Awaitable[Opened]],
        unless_set: Callable[[], Callable[[], str]],
        version: int | None = None,
        alone: Alone | None = None,
    ) -> None:
        """Without `alone` every statement needs the transaction.

        `unless_set` is `DatabaseClock.unless_set`.
        """
        self.version = version
        """A number that stays the same while nobody else writes; None when others may at any time."""
        self._begin = begin
        self._unless_set = unless_set
        self._alone = alone
        self.opened: Opened | None = None
        """Its connection, once it has begun; before that nothing has been sent to the database."""
        self._check: Callable[[], str] | None = None
        self._postponed: Change | None = None

    @property
    def beside(self) -> Beside | None:
        """Return what reads outside the transaction; None where every statement needs it, or once it has begun."""
        return None if self._alone is None or self.opened is not None else Beside(self._alone)

    async def open(self) -> Opened:
        """Begin the transaction, unless it has begun."""
        if self.opened is None:
            self.opened = await self._begin()
        return self.opened

    def fail_if_clock_set(self) -> None:
        """Make the commit fail if the clock is set from now on, unless this server writes exclusively."""
        if self.version is None:
            self._check = self._unless_set()

    def postpone(self, change: Change) -> None:
        """Write the change before the next statement or the commit. Nothing else may be postponed yet."""
        assert self._postponed is None
        self._postponed = change

    def take_back(self) -> Change:
        """Remove and return the postponed change, for code that replaces it before it is written."""
        change, self._postponed = self._postponed, None
        return change or Change()

    async def take_along(self, name: str, touched: frozenset[int]) -> Change:
        """Remove and return the postponed change, for code that adds a part with this name, for other tasks.

        When the two can't be one statement, the postponed one is written now, and an empty change is returned. Raises
        `LostUpdate` as `send_postponed` does.
        """
        if self._postponed is not None and not self._postponed.goes_with(name, touched):
            await self.send_postponed()
        return self.take_back()

    async def send_postponed(self) -> None:
        """Write the postponed change. Raises `LostUpdate` when a row is not as expected."""
        change, self._postponed = self._postponed, None
        if change is not None:
            import asyncpg

            _, driver = await self.open()
            text = change.text(is_alone=False)
            with named(text):
                try:
                    await driver.fetch(text, *change.values)
                except asyncpg.DivisionByZeroError as error:
                    # A trigger may divide too.
                    raise (LostUpdate(CHANGED) if function_of(error) is None else error) from None

    async def commit(self) -> None:
        """Write the postponed change and commit; without any statement there is nothing to commit.

        Raises `LostUpdate` when a row is not as expected, or when the clock was set after `fail_if_clock_set`.
        """
        change, alone = self._postponed, self._alone if self.opened is None else None
        if change is not None and alone is not None and await alone.write(change):
            return
        await self.send_postponed()
        if self.opened is not None:
            import asyncpg

            check = "" if self._check is None else self._check()
            with named("COMMIT"):
                try:
                    await self.opened[1].execute(f"{check}COMMIT")
                except asyncpg.DivisionByZeroError as error:
                    # A trigger may divide too.
                    raise (LostUpdate(UNBELIEVED) if function_of(error) is None else error) from None

    async def execute(self, statement: Executable, parameters: Any = None, /) -> Rows:
        """Run a statement through SQLAlchemy; a list of parameters runs it for each."""
        await self.send_postponed()
        connection, _ = await self.open()
        return await connection.execute(statement, parameters)

    async def exec_driver_sql(self, statement: str, parameters: Any = None, /) -> Rows:
        """Run SQL in the driver's parameter style, after the postponed change."""
        await self.send_postponed()
        connection, _ = await self.open()
        return await connection.exec_driver_sql(statement, parameters)

    async def run_sync(self, function: Callable[[Connection], T], /) -> T:
        """Call `function` with a connection that is not asynchronous."""
        await self.send_postponed()
        connection, _ = await self.open()
        return await connection.run_sync(function)

    async def fetch(
        self, statement: str, values: Sequence[Any] = (), *, is_independent: bool = False
    ) -> "Sequence[Sequence[Any]]":
        """Run SQL on the driver itself and return its raw rows: UUIDs are objects.

        A read that `is_independent` is of a queue, from which a postponed change only takes away, or of a sequence.
        """
        if not is_independent or (self._postponed is not None and self._postponed.fills_queues):
            await self.send_postponed()
        elif self.opened is None and self._alone is not None:
            return await self._alone.read(statement, values)
        _, driver = await self.open()
        with named(statement):
            rows: Sequence[Sequence[Any]] = await driver.fetch(statement, *values)
            return rows

    async def change(self, statement: str, values: Sequence[Any]) -> int:
        """Run SQL on the driver itself and return how many rows it changed."""
        await self.send_postponed()
        _, driver = await self.open()
        with named(statement):
            return int((await driver.execute(statement, *values)).rsplit(" ", 1)[1])


async def roll_back(connection: AsyncConnection, driver: "asyncpg.Connection[Any]") -> None:
    """Roll back a failed transaction; a connection on which even that fails is discarded."""
    if driver.is_closed():
        await connection.invalidate()
        return
    if driver.is_in_transaction():
        try:
            with named("ROLLBACK"):
                await driver.execute("ROLLBACK")
        except (DBAPIError, OSError):
            await connection.invalidate()

"""PostgreSQL's writer: it begins transactions, and checks in each that what its server believes is true."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakKeyDictionary

from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine

from treadle_server.errors import StoreUnavailable
from treadle_server.store.connections import WRITERS, WRITING
from treadle_server.store.failures import function_of
from treadle_server.store.postgres.changes import Change
from treadle_server.store.postgres.clock import WITHIN, DatabaseClock
from treadle_server.store.postgres.connection import CHANGED, UNBELIEVED, Alone, DirectConnection, Opened, roll_back
from treadle_server.store.postgres.exclusive import ExclusiveWriter
from treadle_server.store.translated import LostUpdate, named

if TYPE_CHECKING:
    import asyncpg

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED;"

BEGIN_POOLED = BEGIN + "".join(f"SET LOCAL {name} = '{value}';" for name, value in WRITING.items())
"""Behind a transaction pooler the settings are the transaction's own. Otherwise they are the session's: setting them in
each transaction took the backend 16 of the 33 microseconds of BEGIN and COMMIT."""

PLANS_LAST = 60.0
"""Seconds for which a connection keeps its plans: one made for an empty table should not serve a full one, though no
case is known where it is worse (`tests/store/test_fresh_plans.py`). Autovacuum runs as often, and whatever it analyzes
is replanned anyway. With one second, one of sixty lone tasks waited 5 ms for planning; with five, one of 250."""

WRITABLE = "SELECT 1 / (current_setting('transaction_read_only') = 'off')::int;"
"""Fails with a division by zero on a host that accepts no writes: a primary that became a standby, or read-only."""

READ_ONLY = (
    "the database no longer accepts writes: it is a standby now, or was made read-only; nothing was changed, try again"
)

LONGEST_WAIT = 30.0
"""Seconds to wait for a connection while all are in use."""

TRIES = 5
"""How often a transaction is begun when other writers, or another time, were found than its server believed."""


class _Belief(NamedTuple):
    """What a batch assumed when it began."""

    version: int | None
    """A number that stays the same while nobody else writes; None when others may at any time."""
    apart: float
    """Seconds by which the database's clock is ahead of this machine's monotonic one."""


class _Lent:
    """Lends a driver's connection for a statement that needs no transaction around it."""

    __slots__ = ("_opened", "_writer")

    def __init__(self, writer: "PostgresWriter") -> None:
        self._writer = writer

    async def __aenter__(self) -> "asyncpg.Connection[Any]":
        self._opened = await self._writer.borrow()
        return self._opened[1]

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        await (self._writer.give_back if error is None else self._writer.close_one)(self._opened)


class PostgresWriter:
    """Lends connections of a small pool, one for each transaction, and sends BEGIN, COMMIT and ROLLBACK itself."""

    def __init__(
        self, engine: AsyncEngine, clock: DatabaseClock, *, is_pooled: bool, leave: Callable[[], Awaitable[None]]
    ) -> None:
        """`engine` is from `postgres_writer`, with the same `is_pooled`.

        `leave` is called when the host no longer accepts writes, so that everything else reconnects too.
        """
        self._is_pooled = is_pooled
        self._begin_text = BEGIN_POOLED if is_pooled else BEGIN
        # Transactions are invisible to SQLAlchemy: it neither begins nor ends any.
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._exclusive = ExclusiveWriter()
        self._clock = clock
        self._leave = leave
        self._kept: list[Opened] = []
        """Connections of past transactions, to be reused."""
        self._room = asyncio.Semaphore(WRITERS)
        """Limits the connections in use. SQLAlchemy's pool forgot waiters when those before them failed to connect,
        while connections that were returned meanwhile were kept here: nothing was written for 30 s."""
        self._lent_now = 0
        """How many connections are in use."""
        self._planned_at: WeakKeyDictionary[asyncpg.Connection[Any], float] = WeakKeyDictionary()
        """When each connection began to keep its plans, by the monotonic clock."""

    @property
    def outdated(self) -> str | None:
        """Return why this server may no longer write (the schema is another version's); None when it may."""
        return self._exclusive.outdated

    @property
    def is_lent(self) -> bool:
        """Return whether a connection is in use."""
        return self._lent_now > 0

    @asynccontextmanager
    async def begin(
        self, *, is_first: bool = False, after: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncIterator[DirectConnection]:
        """Open a transaction that commits durably at the end of the block, or rolls back when it raises.

        With `is_first` it waits until no other transaction is open, and ends any server's exclusive state. With `after`
        nothing is sent to the database before the first statement, which waits for `after`; it raises `LostUpdate` if
        others have written, or the time has proved different, since the block began. So does the commit after
        `fail_if_clock_set`, if the clock was set.
        """
        belief = _Belief(self._exclusive.version, self._clock.apart)
        if after is None:
            lent = DirectConnection(partial(self._open, is_first=is_first), self._clock.unless_set)
            await lent.open()
            lent.version = None if is_first else self._exclusive.version
        else:
            late = partial(self._open_late, after, belief)
            alone = None
            if belief.version is not None and not self._is_pooled:
                alone = Alone(partial(self._write_alone, after, belief), partial(self._read_alone, after))
            lent = DirectConnection(late, self._clock.unless_set, belief.version, alone)
        try:
            yield lent
            await lent.commit()
            if after is not None:
                await after()  # even without writes, the block's results may rest on what `after` makes sure of
        except BaseException:
            if lent.opened is not None:
                await self._give_up(lent.opened)
            raise
        if lent.opened is not None:
            await self.give_back(lent.opened)

    async def _open(self, *, is_first: bool = False, is_late: bool = False) -> Opened:
        opened = _, driver = await self.borrow()
        try:
            with named("BEGIN"):
                await (self._join(driver) if is_first else self._begin(driver, is_late=is_late))
        except BaseException:
            await self._give_up(opened)
            raise
        return opened

    async def _open_late(self, after: Callable[[], Awaitable[None]], belief: _Belief) -> Opened:
        await after()
        opened = await self._open(is_late=True)
        try:
            self._look(belief)
        except LostUpdate:
            await self._give_up(opened)
            raise
        return opened

    async def _write_alone(self, after: Callable[[], Awaitable[None]], belief: _Belief, change: Change) -> bool:
        """Write the change as its own transaction; False, with nothing done, when old plans must be discarded first.

        Raises `LostUpdate` when a row is not as expected, or when the time or the exclusive writer is not as believed.
        """
        import asyncpg

        await after()
        text, values = change.text(is_alone=True), change.values
        async with _Lent(self) as driver:
            self._look(belief)
            if self._are_old(driver):
                return False
            with named("COMMIT"):
                try:
                    await driver.fetch(text, *values, self._exclusive.believed, *self._clock.bounds)
                except (asyncpg.DivisionByZeroError, asyncpg.ReadOnlySQLTransactionError) as error:
                    lost = LostUpdate(f"{CHANGED}, or {UNBELIEVED}")
                    raise (lost if function_of(error) is None else error) from None
        return True

    async def _read_alone(
        self, after: Callable[[], Awaitable[None]], statement: str, values: Sequence[Any]
    ) -> "Sequence[Sequence[Any]]":
        """Return the rows of a statement that needs no transaction."""
        await after()
        async with _Lent(self) as driver:
            with named(statement):
                if forgetting := self._forgetting(driver):
                    await driver.execute(forgetting)
                rows: Sequence[Sequence[Any]] = await driver.fetch(statement, *values)
                return rows

    def _look(self, belief: _Belief) -> None:
        """Raise `LostUpdate` when others have written since, or when the clock has proved to show another time."""
        if belief.version != self._exclusive.version or abs(self._clock.apart - belief.apart) > WITHIN:
            raise LostUpdate(UNBELIEVED)

    async def borrow(self) -> Opened:
        """Return a kept connection, or one from the pool if none of them is usable."""
        await self._enter()
        self._lent_now += 1
        try:
            while self._kept:
                opened = kept, driver = self._kept.pop()
                if not driver.is_closed():
                    return opened
                await kept.invalidate()
                await kept.close()
            connection = await self._engine.connect()
            raw = await connection.get_raw_connection()
        except BaseException:
            self._leave_room()
            raise
        return connection, cast("asyncpg.Connection[Any]", raw.driver_connection)

    async def give_back(self, opened: Opened) -> None:
        """Keep a connection for reuse, which saves the 53 us that the pool takes each time."""
        try:
            if opened[0].in_transaction():
                await opened[0].rollback()  # only SQLAlchemy's own notion: none is open in the database
        except BaseException:
            await self.close_one(opened)
            raise
        self._kept.append(opened)
        self._leave_room()

    async def close_one(self, opened: Opened) -> None:
        """Discard a connection on which something failed."""
        try:
            await opened[0].close()
        finally:
            self._leave_room()

    async def _enter(self) -> None:
        """Wait for a free connection, as long as the pool would. Raises SQLAlchemy's `TimeoutError`."""
        if not self._room.locked():
            await self._room.acquire()
            return
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await self._room.acquire()
        except TimeoutError:
            raise PoolTimeout("timed out waiting for a free connection") from None

    def _leave_room(self) -> None:
        self._lent_now -= 1
        self._room.release()

    async def _give_up(self, opened: Opened) -> None:
        """Roll back a failed transaction and discard its connection."""
        try:
            await roll_back(*opened)
        finally:
            await self.close_one(opened)

    async def _join(self, driver: "asyncpg.Connection[Any]") -> None:
        await driver.execute(self._begin_text)
        await self._exclusive.join(driver)
        await self._clock.read(driver)

    async def _begin(self, driver: "asyncpg.Connection[Any]", *, is_late: bool) -> None:
        import asyncpg

        for _ in range(TRIES):
            try:
                await driver.execute(
                    self._begin_text + WRITABLE + self._clock.check + self._exclusive.check + self._forgetting(driver)
                )
            except asyncpg.DivisionByZeroError:
                await driver.execute("ROLLBACK")
                if await driver.fetchval("SHOW transaction_read_only") == "on":
                    driver.terminate()
                    await self.close()
                    await self._leave()
                    raise StoreUnavailable(READ_ONLY, retry_after=1) from None
                await self._clock.read(driver)
                await self._exclusive.look(driver)
                if is_late:
                    raise LostUpdate(UNBELIEVED) from None
            else:
                return
        raise StoreUnavailable(
            "other servers, or changes of the clock, interfered every time; nothing was changed, try again",
            retry_after=1,
        )

    def _forgetting(self, driver: "asyncpg.Connection[Any]") -> str:
        """Return SQL that discards the connection's plans when they are old; planning them again takes some 5 ms."""
        if not self._are_old(driver):
            return ""
        self._planned_at[driver] = monotonic()
        return "DISCARD PLANS;"

    def _are_old(self, driver: "asyncpg.Connection[Any]") -> bool:
        at = monotonic()
        return at - self._planned_at.setdefault(driver, at) >= PLANS_LAST

    async def seek_exclusive(self) -> None:
        """Become the exclusive writer, unless this server is already, or others write all the time."""
        if self._exclusive.version is None:
            async with _Lent(self) as driver:
                with named("BEGIN"):
                    await self._exclusive.seek(driver)

    async def read_clock(self) -> None:
        """Read the database's clock."""
        async with _Lent(self) as driver:
            with named("SELECT clock_timestamp()"):
                await self._clock.read(driver)

    async def close(self) -> None:
        """Close every connection that is not lent; new ones may still be opened."""
        while self._kept:
            await self._kept.pop()[0].close()
        await self._engine.dispose()

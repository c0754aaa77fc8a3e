"""The database that the servers share: real SQL on SQLite, under a clock, a network and faults of the simulation.

Transactions that write follow one another, as SQLite has it; each server has connections of its own. Who reads sees
what is committed when his statement begins, as on PostgreSQL.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from tests.simulation.fate import BEGIN
from tests.simulation.journal import Journal
from tests.simulation.loop import Process, SimulatedLoop
from treadle_server.clock import Clock
from treadle_server.errors import StoreUnavailable
from treadle_server.store.base import Dialect, LostUpdate, Tx
from treadle_server.store.connections import sqlite_writer
from treadle_server.store.postgres.clock import WITHIN, DatabaseClock
from treadle_server.store.postgres.writer import TRIES
from treadle_server.store.sqlite.writer import InlineConnection

WAY = 0.002
"""Seconds to the database and back, at most, when all is well."""

SETTLES = 1.5
"""Seconds after which a commit is done at the latest whose connection broke."""


class MachineClock:
    """A server's own clock: it may be wrong, and may be set."""

    def __init__(self, loop: SimulatedLoop, ahead: float = 0.0) -> None:
        self._loop = loop
        self.ahead = ahead

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self._loop.time() + self.ahead)

    def monotonic(self) -> float:
        return self._loop.time()


@dataclass
class Trouble:
    """How bad it is at this time."""

    share: float = 0.0
    """Of transactions that something happens to."""
    kinds: tuple[str, ...] = ("refused", "broken", "slow", "unheard", "late", "overtaken")
    slow: float = 0.0
    """Seconds that a statement takes at most."""


class Connection(InlineConnection):
    """A connection whose statements take their time."""

    database: "Database"
    loops_on = False

    @property
    def dialect(self) -> Any:
        """Return the SQL dialect, of which what only reads asks."""
        return self._connection.dialect

    async def execute(self, statement: Any, parameters: Any = None, /) -> Any:
        await self.database.statement()
        return await super().execute(statement, parameters)

    async def exec_driver_sql(self, statement: str, parameters: Any = None, /) -> Any:
        await self.database.statement()
        return await super().exec_driver_sql(statement, parameters)


@dataclass
class Database:
    """What all servers share."""

    loop: SimulatedLoop
    chance: random.Random
    journal: Journal
    path: Path
    process: Process = field(default_factory=lambda: Process("database"))
    ahead: float = 0.0
    """Seconds by which its clock was set."""
    latest: float = 0.0
    trouble: Trouble = field(default_factory=Trouble)
    is_up: bool = True
    faults: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._turn = asyncio.Lock()
        self._epochs = [(0.0, self.ahead)]
        self._engines: list[Engine] = []
        """One for each connection, those too with which a process has died: it keeps the driver's own."""
        self._readers: list[Connection] = []
        self._idle: list[Connection] = []

    def now(self) -> datetime:
        """Return what its clock shows."""
        return BEGIN + timedelta(seconds=self.loop.time() + self.ahead)

    def set_clock(self, seconds: float) -> None:
        """Set the clock by so many seconds."""
        self.ahead += seconds
        self.latest = max(self.latest, self.ahead)
        self._epochs.append((self.loop.time(), self.ahead))

    def time_of(self, shown: datetime) -> float:
        """Return when the clock showed this for the first time, at the earliest."""
        seconds = (shown - BEGIN).total_seconds()
        times = [max(since, seconds - ahead) for since, ahead in self._epochs]
        return min(times) - 2 * WITHIN

    async def way(self) -> None:
        """Let time pass for a way there, or back."""
        await asyncio.sleep(self.chance.random() * WAY)

    async def statement(self) -> None:
        """Let others go on while a statement runs, now and then."""
        if self.chance.random() < 0.1:
            await asyncio.sleep(self.chance.random() * (self.trouble.slow or WAY))

    def connect(self) -> Connection:
        """Return a connection; those that were given back are used again."""
        if self._idle:
            return self._idle.pop()
        engine = sqlite_writer(make_url(f"sqlite:///{self.path}"))
        connection = Connection(engine.connect())
        connection.database = self
        self._engines.append(engine)
        # Nobody takes the machine's power away; what a crash leaves is decided here.
        connection.driver.execute("PRAGMA synchronous=OFF")
        return connection

    def give_back(self, connection: Connection) -> None:
        """Take a connection back that is not used any more."""
        if connection.driver.in_transaction:
            connection.driver.rollback()
        self._idle.append(connection)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        """Lend a connection to read."""
        connection = self._readers.pop() if self._readers else self.connect()
        try:
            yield connection
        finally:
            self._readers.append(connection)

    async def turn(self) -> None:
        """Wait until no other transaction writes."""
        await self._turn.acquire()

    def end_turn(self) -> None:
        """Let the next one write."""
        self._turn.release()

    def commit_later(self, connection: Connection, seconds: float) -> None:
        """Have the database do what it was asked, of which nobody is told; it keeps its locks until then."""

        async def commit() -> None:
            await asyncio.sleep(seconds)
            connection.driver.commit()
            self.journal.note("a commit is done that nobody was told of")
            self.give_back(connection)
            self.end_turn()

        self.loop.start(self.process, commit(), "late commit")

    def close(self) -> None:
        """Close every connection."""
        for connection in self._idle + self._readers:
            connection.close()
        for engine in self._engines:
            engine.dispose()


class _Asked:
    """The driver of whom `DatabaseClock` asks what time it is."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def fetchval(self, statement: str) -> datetime:
        await self._database.way()
        shown = self._database.now()
        await self._database.way()
        return shown


class SimulatedStore:
    """A server's store on the shared database."""

    dialect: Dialect = "sqlite"
    is_shared = True

    def __init__(self, database: Database, machine: Clock, *, remembers: bool) -> None:
        """With `remembers` it says when nobody else has written, as SQLite does, and PostgreSQL to an exclusive one."""
        self.database = database
        self.clock: Clock = DatabaseClock(machine)
        self.is_dead = False
        self.is_cut = False
        """Whether the network lets nothing through."""
        self._remembers = remembers
        self._writers: list[Connection] = []
        self._version = 0
        self._lent = 0

    async def open(self) -> None:
        await self.read_clock()

    async def close(self) -> None:
        while self._writers:
            self.database.give_back(self._writers.pop())

    async def seek_exclusive(self) -> None:
        """Whether it is the only one it is told by the database."""

    async def read_clock(self) -> None:
        await self._reach()
        await self._ask()

    async def _ask(self) -> None:
        await cast("DatabaseClock", self.clock).read(cast("Any", _Asked(self.database)))

    async def additions(self) -> list[str]:
        return []

    def connections_checked_out(self) -> int:
        return self._lent

    async def _reach(self) -> None:
        await self.database.way()
        if self.is_dead or self.is_cut or not self.database.is_up:
            if not self.is_dead and self.is_cut:
                await asyncio.sleep(self.database.chance.random() * 2)
            raise StoreUnavailable("the database does not answer; nothing was changed", retry_after=1)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Any]:
        database = self.database
        await self._reach()
        if database.chance.random() < database.trouble.share / 4:
            database.faults["reading"] += 1
            raise StoreUnavailable("the connection broke while it read", retry_after=1)
        async with database.reading() as connection:
            yield connection

    read_in_place = read_loosely = read

    @asynccontextmanager
    async def write(self, *, after: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[Tx]:
        if after is not None:
            await after()
        database = self.database
        kind = self._draw()
        await self._reach()
        if kind == "refused":
            raise StoreUnavailable("it is not there; nothing was changed", retry_after=1)
        await database.turn()
        keeps_turn = False
        connection = self._writers.pop() if self._writers else database.connect()
        try:
            await self._begin(connection)
            version = connection.data_version() if self._remembers else None
            yield Tx(connection, "sqlite", version)
            if kind == "slow":
                await asyncio.sleep(database.chance.uniform(0, 0.5))
            await database.way()
            self._refuse(kind)
            if kind == "late":
                keeps_turn = True
                database.commit_later(connection, database.chance.uniform(0, SETTLES))
            else:
                connection.driver.commit()
                database.journal.note("committed{}", f", {kind}" if kind else "")
        finally:
            if not keeps_turn:
                if connection.driver.in_transaction:
                    connection.driver.rollback()
                self._keep(connection)
                database.end_turn()
        if kind in {"unheard", "late"}:
            with suppress(TimeoutError):
                async with asyncio.timeout(database.chance.choice((0, 0.05, 1))):
                    await asyncio.Event().wait()
            raise StoreUnavailable("it may be done; whether it was done is unknown", retry_after=1)
        await database.way()

    def _draw(self) -> str:
        database = self.database
        if database.chance.random() >= database.trouble.share:
            return ""
        kind = database.chance.choice(database.trouble.kinds)
        database.faults[kind] += 1
        database.journal.note("the next transaction is {}", kind)
        return kind

    def _refuse(self, kind: str) -> None:
        if kind == "broken" or self.is_cut or self.is_dead or not self.database.is_up:
            raise StoreUnavailable("it broke; nothing was changed", retry_after=1)
        if kind == "overtaken":
            raise LostUpdate("another server was faster")

    def _keep(self, connection: Connection) -> None:
        if self.is_dead or len(self._writers) >= 2:
            self.database.give_back(connection)
        else:
            self._writers.append(connection)

    async def _begin(self, connection: Connection) -> None:
        """Begin as on PostgreSQL: only who knows what time the database shows may write."""
        if self.is_dead:
            raise StoreUnavailable("it is gone")
        clock = cast("DatabaseClock", self.clock)
        for _ in range(TRIES):
            if abs((clock.now() - self.database.now()).total_seconds()) <= WITHIN + clock._way:
                connection.driver.execute("BEGIN IMMEDIATE")
                return
            await self._ask()
        raise StoreUnavailable("another time comes and goes without end; nothing was changed", retry_after=1)

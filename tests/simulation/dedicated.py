"""The line between servers: notices that come late, twice, in another order or not at all; and the leader's lock."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.database import Database
from tests.simulation.loop import PROCESS
from treadle_server.errors import StoreUnavailable

FORGOTTEN = 6.0
"""Seconds after which the database ends the session of a machine that is gone."""


@dataclass
class Post:
    """How notices go."""

    lost: float = 0.0
    doubled: float = 0.0
    latest: float = 0.01
    """Seconds that one takes at most."""
    is_ordered: bool = True


@dataclass
class Exchange:
    """The database's side: who listens, and who holds the leader's lock."""

    database: Database
    chance: random.Random
    post: Post = field(default_factory=Post)
    sessions: list["LineSession"] = field(default_factory=list)
    leader: "LineSession | None" = None

    def notify(self, sender: "LineSession", texts: list[str]) -> None:
        """Tell everybody who listens."""
        for text in texts:
            for session in self.sessions:
                if session.hear is not None:
                    self._send(session, text)

    def _send(self, session: "LineSession", text: str) -> None:
        loop, journal = self.database.loop, self.database.journal
        if self.chance.random() < self.post.lost:
            journal.note("a notice to {} is lost: {}", session.name, text)
            return
        for _ in range(1 + (self.chance.random() < self.post.doubled)):
            at = loop.time() + self.chance.random() * self.post.latest
            if self.post.is_ordered:
                at = session.last_at = max(at, session.last_at + 1e-6)
            loop.call_at(at, session.deliver, text, context=session.context)

    def end(self, session: "LineSession") -> None:
        """End a session, and with it what it held."""
        if session in self.sessions:
            self.sessions.remove(session)
        if self.leader is session:
            self.leader = None


class LineSession:
    """A connection of its own to the database, as far as the services use it."""

    def __init__(self, exchange: Exchange, name: str, line: "SimulatedConnection") -> None:
        self.exchange = exchange
        self.name = name
        self.line = line
        self.context = PROCESS.get().context()
        self.hear: Callable[[Any, int, str, object], None] | None = None
        self.channel = ""
        self.is_broken = False
        self.last_at = 0.0

    def deliver(self, text: str) -> None:
        """Hand over a notice."""
        if not self.is_broken and self.hear is not None:
            self.exchange.database.journal.note("hears {}", text)
            self.hear(self, 0, self.channel, text)

    async def add_listener(self, channel: str, hear: Callable[[Any, int, str, object], None]) -> None:
        await self._way()
        self.channel, self.hear = channel, hear

    async def execute(self, statement: str, *values: Any) -> None:
        await self._way()
        if "pg_notify" in statement:
            self.exchange.notify(self, values[1])

    async def fetchval(self, statement: str) -> Any:
        await self._way()
        if "pg_try_advisory_lock" not in statement:
            return 1
        if self.exchange.leader is None:
            self.exchange.leader = self
            self.exchange.database.journal.note("leads")
        return self.exchange.leader is self

    async def _way(self) -> None:
        await self.exchange.database.way()
        self.line.check()
        if self.is_broken:
            raise StoreUnavailable("the connection is closed")


class SimulatedConnection:
    """Stands for `treadle_server.store.postgres.dedicated.DedicatedConnection`."""

    def __init__(self, exchange: Exchange, name: str, on_break: Callable[[], None]) -> None:
        self._exchange = exchange
        self._name = name
        self._on_break = on_break
        self._session: LineSession | None = None
        self.is_dead = False
        self.is_cut = False

    @property
    def is_open(self) -> bool:
        return self._session is not None and not self._session.is_broken

    def check(self) -> None:
        """Raise `StoreUnavailable` where nothing comes through."""
        if self.is_dead or self.is_cut or not self._exchange.database.is_up:
            raise StoreUnavailable("the database does not answer")

    async def open(self) -> LineSession:
        if self._session is not None and self._session.is_broken:
            self._forget(self._session)
        if self._session is None:
            await self._exchange.database.way()
            self.check()
            self._session = LineSession(self._exchange, self._name, self)
            self._exchange.sessions.append(self._session)
        return self._session

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[LineSession]:
        session = await self.open()
        try:
            yield session
        except Exception:
            self._forget(session)
            raise

    def _forget(self, session: LineSession) -> None:
        if session is self._session:
            self._session = None
            session.is_broken = True
            self._end(session)
            self._on_break()

    def _end(self, session: LineSession) -> None:
        """The database may find out later than this side does."""
        loop, chance = self._exchange.database.loop, self._exchange.chance
        later = chance.choice((0, 0, FORGOTTEN)) * chance.random()
        loop.call_later(later, self._exchange.end, session, context=self._exchange.database.process.context())

    def break_(self) -> None:
        """Have the connection break; this side is told."""
        if self._session is not None:
            session = self._session
            self._exchange.database.loop.call_soon(self._forget, session, context=session.context)

    def die(self) -> None:
        """The process is gone."""
        self.is_dead = True
        if (session := self._session) is not None:
            session.is_broken = True
            self._end(session)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.is_broken = True
            self._exchange.end(session)
        await asyncio.sleep(0)

"""What comes upon a simulation, and when: drawn from the seed."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from tests.history.records import Fault
from tests.simulation.database import Database, Trouble
from tests.simulation.dedicated import Exchange, Post
from tests.simulation.journal import Journal
from tests.simulation.ledger import Ledger
from tests.simulation.servers import Server
from tests.simulation.sockets import Weather
from tests.simulation.workers import Worker

STEPS = (60.0, 8.0, -8.0, -60.0, 3_600.0)
"""Seconds by which a clock is set."""


@dataclass
class Site:
    """Everything that may be hit."""

    database: Database
    exchange: Exchange
    sockets: Weather
    servers: Sequence[Server]
    workers: Sequence[Worker]
    journal: Journal
    ledger: Ledger
    faults: list[Fault] = field(default_factory=list)


class Storm:
    """Brings faults upon a site; each seed has kinds of its own."""

    def __init__(self, site: Site, chance: random.Random) -> None:
        self._site, self._chance = site, chance
        self._loop = site.database.loop
        self._kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self._kill,
            "end": self._end,
            "freeze": self._freeze,
            "freeze worker": self._freeze_worker,
            "die": self._die,
            "cut": self._cut,
            "swallow": self._swallow,
            "sockets": self._bad_sockets,
            "commits": self._bad_commits,
            "database away": self._database_away,
            "database cut": self._database_cut,
            "clock": self._clock,
            "database clock": self._database_clock,
            "notices": self._bad_notices,
            "line": self._line,
        }
        self.count: Counter[str] = Counter()

    async def rage(self, seconds: float) -> None:
        """Bring one fault after the other for so long, some at the same time; all are over in the end."""
        until = self._loop.time() + seconds
        # Some kinds a seed: where everything happens at once one thing excuses the other.
        several = self._chance.choice((1, 2, 4, 8, len(self._kinds)))
        kinds = self._chance.sample(sorted(self._kinds), several)
        if self._chance.random() < 0.4:
            kinds.append("commits")
        if self._chance.random() < 0.2:
            # What a commit's unknown outcome leaves is seen where nothing else has befallen anybody.
            kinds = ["commits"]
        self._site.journal.note("the storm has {}", ", ".join(kinds))
        async with asyncio.TaskGroup() as group:
            while self._loop.time() < until:
                await asyncio.sleep(self._chance.expovariate(1.2))
                group.create_task(self._happen(self._chance.choice(kinds)))

    async def _happen(self, kind: str) -> None:
        self.count[kind] += 1
        self._site.journal.note("{} begins", kind)
        await self._kinds[kind]()
        self._site.journal.note("{} is over", kind)

    def _server(self) -> Server:
        return self._chance.choice(self._site.servers)

    async def _kill(self) -> None:
        server = self._server()
        if not server.is_up:
            return
        self._disturbed(server)
        server.kill()
        await asyncio.sleep(self._chance.choice((0, 0.5, 3)) * self._chance.random())
        await server.gone()
        server.start()

    async def _end(self) -> None:
        server = self._server()
        if not server.is_up:
            return
        self._disturbed(server)
        await server.stop()
        await asyncio.sleep(self._chance.random())
        server.start()

    def _disturbed(self, *servers: Server) -> None:
        self._site.ledger.troubles += [(self._loop.time(), server.name) for server in servers]

    async def _freeze(self) -> None:
        server, seconds = self._server(), self._chance.choice((0.3, 2, 7)) * self._chance.random()
        self._loop.freeze(server.process, seconds)
        self._disturbed(server)
        await asyncio.sleep(seconds)
        self._disturbed(server)

    async def _freeze_worker(self) -> None:
        worker, seconds = (
            self._chance.choice(self._site.workers),
            self._chance.choice((0.3, 2, 7)) * self._chance.random(),
        )
        began = self._loop.time()
        self._loop.freeze(worker.process, seconds)
        with worker.troubled():
            await asyncio.sleep(seconds)
        self._site.faults.append(Fault("freeze", worker.process.name, began, self._loop.time()))

    async def _die(self) -> None:
        worker = self._chance.choice(self._site.workers)
        await worker.die()
        await asyncio.sleep(self._chance.choice((0, 1, 5)) * self._chance.random())
        worker.start()

    async def _cut(self) -> None:
        wires = [wire for server in self._site.servers for wire in server.wires if not wire.is_cut]
        if wires:
            wire = self._chance.choice(wires)
            self._site.journal.note("the wire of {} to {} is cut", wire.client_name, wire.server_name)
            wire.cut()

    async def _swallow(self) -> None:
        wires = [wire for server in self._site.servers for wire in server.wires if not wire.is_cut]
        if not wires:
            return
        wire, seconds = self._chance.choice(wires), self._chance.choice((0.5, 3)) * self._chance.random()
        wire.swallows_until = self._loop.time() + seconds
        with ExitStack() as befallen:
            for worker in self._site.workers:
                if worker.process.name == wire.client_name:
                    befallen.enter_context(worker.troubled())
            await asyncio.sleep(seconds)
        if self._chance.random() < 0.5:
            wire.cut()

    async def _bad_sockets(self) -> None:
        sockets = self._site.sockets
        sockets.latest, sockets.cut = self._chance.choice((0.003, 0.05, 0.4)), self._chance.choice((0, 0.01, 0.05))
        await asyncio.sleep(self._chance.uniform(0.5, 3))
        sockets.latest, sockets.cut = Weather.latest, Weather.cut

    async def _bad_commits(self) -> None:
        trouble = self._site.database.trouble
        trouble.share = self._chance.choice((0.05, 0.2, 0.6))
        trouble.kinds = tuple(self._chance.sample(Trouble.kinds, self._chance.randint(1, len(Trouble.kinds))))
        trouble.slow = self._chance.choice((0.0, 0.0, 0.05))
        await asyncio.sleep(self._chance.uniform(0.5, 4))
        trouble.share, trouble.slow = 0.0, 0.0

    async def _database_away(self) -> None:
        self._site.database.is_up = False
        self._disturbed(*self._site.servers)
        for server in self._site.servers:
            for line in server.lines:
                line.break_()
        await asyncio.sleep(self._chance.choice((0.3, 3)) * self._chance.random())
        self._site.database.is_up = True
        self._disturbed(*self._site.servers)

    async def _database_cut(self) -> None:
        server = self._server()
        if not hasattr(server, "store"):
            return
        self._disturbed(server)
        server.cut_database(True)
        await asyncio.sleep(self._chance.choice((0.3, 3, 6)) * self._chance.random())
        server.cut_database(False)
        self._disturbed(server)

    async def _clock(self) -> None:
        self._server().clock.ahead += self._chance.choice(STEPS)

    async def _database_clock(self) -> None:
        self._site.database.set_clock(self._chance.choice(STEPS))
        self._site.journal.note("the database's clock is {:+.0f} s", self._site.database.ahead)

    async def _bad_notices(self) -> None:
        post = self._site.exchange.post
        post.lost, post.doubled = self._chance.choice((0, 0.1, 0.6)), self._chance.choice((0, 0.3))
        post.latest, post.is_ordered = self._chance.choice((0.01, 0.3, 1.5)), self._chance.random() < 0.5
        await asyncio.sleep(self._chance.uniform(0.5, 4))
        post.lost, post.doubled, post.latest, post.is_ordered = Post.lost, Post.doubled, Post.latest, Post.is_ordered

    async def _line(self) -> None:
        if lines := self._server().lines:
            self._chance.choice(lines).break_()

"""One simulation from its seed to its verdict."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from unittest import mock

from tests.conftest import SharedStatements
from tests.history.records import History
from tests.history.tables import read_from
from tests.simulation.clients import Client, Observer
from tests.simulation.database import Database
from tests.simulation.dedicated import Exchange
from tests.simulation.fate import Fate, fated
from tests.simulation.journal import Journal
from tests.simulation.ledger import Ledger
from tests.simulation.loop import PROCESS, SimulatedLoop, Stuck
from tests.simulation.planted import PLANTED
from tests.simulation.servers import Server
from tests.simulation.sockets import Weather
from tests.simulation.verdict import holds, unended, violations
from tests.simulation.weather import Site, Storm
from tests.simulation.workers import Worker
from treadle_server.store import connections as store_engine
from treadle_server.store.base import LostUpdate

STORM = 5.0
"""Seconds, of the simulation, in which faults come."""

REST = 60.0
"""Seconds after which all has ended, and whoever watches knows it."""

MOST_TASKS = 10
"""Tasks of each client."""

SKEWS = (0.0, 0.0, -60.0, 30.0, 3_600.0)
"""Seconds by which a server's own clock is ahead."""


@dataclass
class Outcome:
    """What came of a seed."""

    seed: int
    journal: Journal
    failures: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    tasks: int = 0
    turns: int = 0
    seconds: float = 0.0
    """Of the simulation."""


def simulate(seed: int, template: Path, planted: str = "") -> Outcome:
    """Run a seed on a copy of the template, an empty database; with a fault that is planted."""
    with TemporaryDirectory(prefix="treadle-simulation-") as directory:
        path = Path(directory, "treadle.db")
        copyfile(template, path)
        loop = SimulatedLoop(f"{seed} loop")
        journal = Journal(loop.time)
        outcome = Outcome(seed, journal)
        fate = Fate(seed, loop.time)
        with fated(fate, seed), _logged(journal), _statements(), PLANTED[planted]():
            loop.set_exception_handler(lambda _, context: journal.note("left alone: {}", context["message"]))
            try:
                simulation = _Simulation(seed, loop, fate, journal, path)
                loop.main.context().run(loop.run_until_complete, simulation.run(outcome))
            except (Stuck, TimeoutError) as error:
                outcome.failures.append(f"stuck: {error!r}")
            finally:
                loop.close()
        outcome.turns = loop.turns
        outcome.failures = journal.defects + outcome.failures
        outcome.seconds = loop.time() - journal._began
        return outcome


@cache
def _shared() -> SharedStatements:
    return SharedStatements()


@contextmanager
def _statements() -> Iterator[None]:
    """Keep compiled statements from one simulation to the next."""
    options = {"compiled_cache": _shared()}
    with mock.patch.object(
        store_engine, "create_engine", partial(store_engine.create_engine, execution_options=options)
    ):
        yield


class _Log(logging.Handler):
    """Writes the servers' log into the journal; an error is a defect."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR and not self._may_be(record):
            cause = "" if record.exc_info is None else f": {record.exc_info[1]!r}"
            self._journal.defect(f"logged: {record.getMessage()}{cause}")
        else:
            self._journal.note("logs {}", record.getMessage())

    @staticmethod
    def _may_be(record: logging.LogRecord) -> bool:
        """A service that was broken off for another transaction is tried again."""
        return record.exc_info is not None and isinstance(record.exc_info[1], LostUpdate)


@contextmanager
def _logged(journal: Journal) -> Iterator[None]:
    logger, handler = logging.getLogger("treadle_server"), _Log(journal)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates


class _Simulation:
    """Everybody who takes part."""

    def __init__(self, seed: int, loop: SimulatedLoop, fate: Fate, journal: Journal, path: Path) -> None:
        self._loop, self._journal = loop, journal
        self._fate = fate
        self._chance = chance = random.Random(f"{seed} plan")
        self._history, self._ledger = History(), Ledger()
        self.database = Database(loop, self._draw(), journal, path)
        exchange = Exchange(self.database, self._draw())
        sockets = Weather()
        remembers = chance.random() < 0.5
        self._servers = [
            Server(
                n,
                self.database,
                exchange,
                sockets,
                self._draw(),
                self._ledger,
                ahead=chance.choice(SKEWS),
                remembers=remembers,
            )
            for n in range(1, 1 + chance.choice((2, 2, 3)))
        ]
        self._site = Site(
            self.database, exchange, sockets, self._servers, [], journal, self._ledger, self._history.faults
        )

    def _draw(self) -> random.Random:
        return random.Random(self._chance.random())

    async def run(self, outcome: Outcome) -> None:
        """Go through all of it."""
        loop = self._loop
        async with asyncio.timeout(600):
            for server in self._servers:
                server.start()
            while not all(server.is_up for server in self._servers):
                await asyncio.sleep(0.05)
            await self._take_part(outcome)
            for server in self._servers:
                await server.stop()
        assert PROCESS.get() is loop.main
        await self._judge(outcome)

    async def _take_part(self, outcome: Outcome) -> None:
        loop, servers, chance = self._loop, self._servers, self._chance
        clients = [Client(n, servers, self._fate, self._journal, self._draw(), self._history.said) for n in (1, 2)]
        registering = loop.start(clients[0].process, self._register(clients[0]), "register")
        await registering
        workers = self._site.workers = [
            Worker(n, servers, self._fate, self._ledger, self._journal, self._draw())
            for n in range(1, 1 + chance.choice((2, 3)))
        ]
        observers = [Observer(n, servers, self._journal, self._draw()) for n in (1, 2)]
        for worker in workers:
            worker.start()
        others = [loop.start(one.process, one.run(MOST_TASKS), one.process.name) for one in clients]
        watching = [loop.start(one.process, one.run(), one.process.name) for one in observers]
        storm = Storm(self._site, self._draw())
        await storm.rage(STORM)
        outcome.faults = storm.count + self.database.faults
        self._journal.note("the storm is over")
        for client in clients:
            client.is_over = True
        await asyncio.gather(*others)
        # What was put in while the clock showed a later time is due at last.
        self.database.set_clock(self.database.latest - self.database.ahead)
        calming = loop.start(clients[0].process, self._calm(clients[0], observers), "calm")
        with suppress(TimeoutError):
            async with asyncio.timeout(REST):
                await calming
        self._history.observed = {one.process.name: one.states for one in observers}
        for worker in workers:
            await worker.die()
        for task in watching:
            task.cancel()
        for ended in await asyncio.gather(*watching, return_exceptions=True):
            assert isinstance(ended, asyncio.CancelledError), ended

    async def _register(self, client: Client) -> None:
        async with client.connected():
            await client.register()

    async def _calm(self, client: Client, observers: list[Observer]) -> None:
        """Wait until all has ended and observers know it; let go on what is paused."""
        connection = self.database.connect()
        async with client.connected():
            while True:
                left = unended(connection.driver)
                paused = [task for task, status in left.items() if status == "paused"]
                if (
                    not left
                    and not holds(connection.driver)
                    and all(one.states == self._states(connection.driver) for one in observers)
                ):
                    self._journal.note("all is at rest")
                    break
                await client.resume(paused)
                await asyncio.sleep(0.25)

    @staticmethod
    def _states(driver: object) -> dict[str, tuple[str, int]]:
        rows = driver.execute("SELECT id, status, version FROM tasks")  # type: ignore[attr-defined]
        return {task: (status, version) for task, status, version in rows}

    async def _judge(self, outcome: Outcome) -> None:
        history, connection = self._history, self.database.connect()
        history.marks = self._ledger.marks
        history.tasks, history.runs = await read_from(connection)
        outcome.tasks = len(history.tasks)
        outcome.failures += violations(connection.driver, history, self._ledger)
        self.database.close()

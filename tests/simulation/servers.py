"""A server of a simulation: its engine, services and live sessions are the real ones, put together as in `app.py`."""

import asyncio
import random
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

from starlette.websockets import WebSocket

from tests.simulation.database import Database, MachineClock, SimulatedStore
from tests.simulation.dedicated import Exchange, SimulatedConnection
from tests.simulation.journal import Journal
from tests.simulation.ledger import Ended, Ledger
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.sockets import Weather, Wire, scope
from treadle_server.access.tokens import Access
from treadle_server.app import rules_of
from treadle_server.artifacts.artifacts import Artifacts
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch
from treadle_server.live.live import Live
from treadle_server.live.route import serve_session
from treadle_server.operations.catalog import Catalog
from treadle_server.operations.context import OperationContext
from treadle_server.operations.waits import Waits
from treadle_server.services.leader import Leader
from treadle_server.services.metrics import Metrics
from treadle_server.services.rates import Rates
from treadle_server.services.recent import Recent
from treadle_server.services.relay.relay import Relay
from treadle_server.services.run import run_services
from treadle_server.settings import Settings

SWEEPS = 1.0
LOST_AFTER = 6.0
GRACE = 1.5
PARTING = 3.0
"""Seconds that sessions have to end when the server is ended."""


@cache
def settings() -> Settings:
    """Return the settings of all servers."""
    return Settings(
        host="127.0.0.1",
        auth="none",
        database_url="sqlite:///unused",
        sweeper_interval_seconds=SWEEPS,
        worker_timeout_seconds=LOST_AFTER,
        session_grace_seconds=GRACE,
    )


@cache
def artifacts() -> Artifacts:
    """Return what nobody uses here."""
    return Artifacts("memory://", None)


class Server:
    """One server, which may be killed, ended and started."""

    def __init__(
        self,
        number: int,
        database: Database,
        exchange: Exchange,
        weather: Weather,
        chance: random.Random,
        ledger: Ledger,
        **how: Any,
    ) -> None:
        self.name = f"server-{number}"
        self._database, self._exchange, self._weather, self._chance = database, exchange, weather, chance
        self._ledger = ledger
        self._loop: SimulatedLoop = database.loop
        self._journal: Journal = database.journal
        self._remembers: bool = how.get("remembers", False)
        self.clock = MachineClock(self._loop, how.get("ahead", 0.0))
        self.process = Process(self.name)
        self.is_up = False
        self.wires: list[Wire] = []
        self.store: SimulatedStore
        self.lines: list[SimulatedConnection] = []
        self.live: Live
        self.engine: Engine
        self._running: asyncio.Task[None] | None = None
        self._end = asyncio.Event()
        self._sessions: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to start."""
        if self._running is None or self._running.done():
            self._journal.note("starts", who=self.name)
            self._end = asyncio.Event()
            self._running = self._loop.start(self.process, self._run(), self.name)

    async def _run(self) -> None:
        """Run until it is ended; one that finds no database is started again, as by a supervisor."""
        while not self._end.is_set():
            try:
                await self._serve()
            except Exception as error:  # noqa: BLE001 - what ends a server by itself is noted
                if not self.store.is_dead:
                    self._journal.note("could not start: {}", repr(error))
                    await asyncio.sleep(0.5)
            finally:
                self.is_up = False

    def _line(self, _url: str, on_break: Any) -> Any:
        line = SimulatedConnection(self._exchange, self.name, on_break)
        self.lines.append(line)
        return line

    def _make(self) -> Engine:
        """Return the engine on its store; a planted fault makes another one."""
        return Engine(self.store, rules_of(settings()))

    async def _serve(self) -> None:
        self.lines = []
        self.store = SimulatedStore(self._database, self.clock, remembers=self._remembers)
        self.engine = engine = self._make()
        rates = Rates(engine.clock)
        ctx = OperationContext(
            settings=settings(),
            engine=engine,
            access=Access(self.store, settings(), engine.clock),
            catalog=Catalog(self.store),
            waits=Waits(),
            rates=rates,
            recent=Recent(),
            metrics=Metrics(engine, rates, most_jobs=0),
            artifacts=artifacts(),
            started_at=self.clock.now(),
        )
        self.live = Live(ctx)
        relay, leader = Relay(engine, "", connect=self._line), Leader("", connect=self._line)
        relay.inbox.receiver.interests += [ctx.waits.awaits, self.live.results.awaits]
        async with AsyncExitStack() as stack:
            stack.push_async_callback(leader.close)
            await leader.check()
            stack.push_async_callback(self.store.close)
            await self.store.open()
            await stack.enter_async_context(engine.running())
            for listener in (
                ctx.catalog.on_commit,
                ctx.waits.on_commit,
                ctx.rates.on_commit,
                ctx.recent.on_commit,
                self._on_commit,
            ):
                stack.callback(engine.hub.listen(listener))
            ctx.services = await stack.enter_async_context(
                run_services(engine, sweeper_interval=SWEEPS, worker_timeout=LOST_AFTER, relay=relay, leader=leader)
            )
            await stack.enter_async_context(self.live.running())
            self.is_up = True
            self._journal.note("is up")
            await self._end.wait()
            if not self.store.is_dead:
                await self.live.close()
                if self._sessions:
                    await asyncio.wait(self._sessions, timeout=PARTING)
                for session in self._sessions:
                    session.cancel()

    def _on_commit(self, batch: Batch) -> None:
        """Write down what a commit of this server changed."""
        if batch.is_foreign:
            return
        names = {change.task.seq: change.task.id for change in batch.tasks}
        for task, was in batch.tasks:
            self._journal.note("{} {} is {} ({})", task.id, task.version, task.status, was)
        for run in batch.runs:
            if run.task_seq in names:
                name, reason = names[run.task_seq], str(run.reason or run.status)
                self._journal.note("{} run {} ends: {}", name, run.run_id, reason)
                claimed = self._database.time_of(run.claimed_at)
                ended = Ended(reason, claimed, self._loop.time(), str(run.worker_id))
                self._ledger.ended[name, run.run_id] = ended

    def connect(self, client: Process) -> Wire:
        """Connect to it. Raises `OSError` when nobody listens."""
        if not self.is_up:
            raise ConnectionRefusedError("nobody listens")
        wire = Wire(self._loop, self._chance, self._weather, client, self.process)
        self.wires = [one for one in self.wires if not one.is_cut] + [wire]
        session = self._loop.start(self.process, self._session(wire), "session")
        self._sessions.add(session)
        session.add_done_callback(self._sessions.discard)
        return wire

    async def _session(self, wire: Wire) -> None:
        try:
            await serve_session(self.live, WebSocket(scope(), wire.receive, wire.answer))
        except Exception as error:  # noqa: BLE001 - a server may not fail so
            if not self.store.is_dead:
                self._journal.defect(f"a session ended with {error!r}")
        finally:
            wire.cut()

    def cut_database(self, cut: bool) -> None:
        """Let nothing through to the database, or let it through again."""
        self.store.is_cut = cut
        for line in self.lines:
            line.is_cut = cut

    def kill(self) -> None:
        """End the process in this moment: nothing that it still does reaches anybody."""
        self._journal.note("is killed", who=self.name)
        self.is_up = False
        self._end.set()
        if hasattr(self, "store"):
            self.store.is_dead = True
        for line in self.lines:
            line.die()
        for wire in self.wires:
            wire.cut()
        for session in self._sessions:
            session.cancel()
        if self._running is not None:
            self._running.cancel()

    async def stop(self) -> None:
        """End it in order, as after SIGTERM."""
        self._journal.note("is ended", who=self.name)
        self.is_up = False
        self._end.set()
        await self.gone()

    async def gone(self) -> None:
        """Wait until nothing of it runs."""
        while left := [task for task in (*self._sessions, self._running) if task is not None and not task.done()]:
            await asyncio.wait(left)

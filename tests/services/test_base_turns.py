"""Whatever befalls a service, and however often it is woken: it turns a bounded number of times a second (N3)."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from sqlalchemy.exc import IntegrityError

from tests.conftest import FakeClock
from tests.timeless import in_no_time
from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.engine.engine import Engine
from treadle_server.errors import StoreUnavailable
from treadle_server.live.results import Results
from treadle_server.services.base import Health, Service, supervise
from treadle_server.services.dependants import Dependants
from treadle_server.services.leader import Leader
from treadle_server.services.relay.relay import Relay
from treadle_server.services.retention import Retention
from treadle_server.services.run import services_of
from treadle_server.store.base import LostUpdate
from treadle_server.webhooks.sender import Sender

SECONDS = 10.0
"""How long each is looked at, on a clock that skips what is only waited for."""

MOST_FAILED = 25
"""Turns that a service may fail in that time."""

TOO_MANY = 700
"""Turns after which a service is taken for one that spins: it may never give way to who would end the test."""


class Spins(BaseException):
    """Something turns without end."""


async def _hang() -> None:
    await asyncio.Event().wait()


async def _fail_later() -> None:
    await asyncio.sleep(0.001)
    raise StoreUnavailable("the database is gone")


def _raising(error: type[Exception], *arguments: object) -> Callable[[], Any]:
    async def fail() -> None:
        raise error(*arguments)

    return fail


STATE = "cannot switch to state 12; another operation (2) is in progress"

WAYS: dict[str, Callable[[], Any]] = {
    "fails at once": _raising(StoreUnavailable, "the database is gone"),
    "fails after a moment": _fail_later,
    "hangs": _hang,
    "closed": _raising(asyncpg.InterfaceError, "cannot perform operation: connection is closed"),
    "another operation": _raising(asyncpg.InternalClientError, STATE),
    "refused": _raising(ConnectionRefusedError, 111, "Connect call failed"),
    "another was faster": _raising(LostUpdate, "another server was faster"),
    "a defect": _raising(ZeroDivisionError, "division by zero"),
    "a row that may not be": _raising(IntegrityError, "INSERT INTO tasks …", None, Exception("unique")),
}


class BrokenStore:
    """A PostgreSQL of which every use ends in one way."""

    dialect = "postgresql"
    is_shared = True

    def __init__(self, end: Callable[[], Any]) -> None:
        self._end = end
        self.uses = 0

    @asynccontextmanager
    async def _use(self) -> AsyncIterator[Any]:
        self.uses += 1
        if self.uses > TOO_MANY:
            raise Spins
        await self._end()
        yield None

    read = write = _use

    async def seek_exclusive(self) -> None:
        async with self._use():
            pass

    read_clock = seek_exclusive


class Session:
    """Somebody who awaits a task."""

    def __init__(self) -> None:
        self.awaited: set[TaskId] = set()


def everything(engine: Engine) -> list[Service]:
    """Every service of a server on PostgreSQL, and the loops that feed its sessions."""
    url = "postgresql://nobody@127.0.0.1:1/x"
    relay = Relay(engine, url)
    relay.sender.peers_listen = True
    relay.inbox.lose()
    objects: Any = SimpleNamespace()
    results = Results(engine.store)
    results.want(Session(), [TaskId("a")])  # type: ignore[arg-type]
    results.look_soon([TaskId("a")])
    found: Sequence[Any] = [
        *services_of(
            engine,
            sweeper_interval=0.5,
            worker_timeout=60,
            objects=objects,
            others=[
                Retention(engine, {Status.COMPLETED: timedelta(1)}),
                Sender(engine, lambda: objects, attempts=1, timeout=1),
            ],
        ),
        *relay.services,
        Leader(url),
        results,
    ]
    return list(found)


def counted(service: Service, turns: Counter[str]) -> Service:
    """Have the service's turns counted, and ended when it spins."""
    turn = service.turn  # type: ignore[attr-defined]

    async def counting() -> float:
        turns[service.name] += 1  # type: ignore[attr-defined]
        if turns[service.name] > TOO_MANY:  # type: ignore[attr-defined]
            raise Spins
        return await turn()  # type: ignore[no-any-return]

    service.turn = counting  # type: ignore[attr-defined]
    return service


@asynccontextmanager
async def woken(services: Sequence[Service]) -> AsyncIterator[None]:
    """Wake the services fifty times a second."""

    async def wake() -> None:
        while services:
            for service in services:
                service.wake()
            await asyncio.sleep(0.02)

    waking = asyncio.ensure_future(wake())
    try:
        yield
    finally:
        waking.cancel()


class Lines(logging.Handler):
    """Counts the lines of the server's log, and formats none: a traceback takes milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    log, lines = logging.getLogger("treadle_server"), Lines()
    monkeypatch.setattr(log, "propagate", False)
    log.addHandler(lines)
    yield lines
    log.removeHandler(lines)


@pytest.mark.parametrize("is_woken", [False, True], ids=["left alone", "woken"])
@pytest.mark.parametrize("way", WAYS)
def test_a_service_whose_turns_fail_turns_seldom_whatever_wakes_it_n3(
    way: str, is_woken: bool, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    """Each service, against a database that fails in each way: also its own connections to PostgreSQL."""
    turns: Counter[str] = Counter()

    async def run() -> BrokenStore:
        store = BrokenStore(WAYS[way])
        monkeypatch.setattr(asyncpg, "connect", lambda *_, **__: WAYS[way]())
        engine = Engine(store, clock=FakeClock())  # type: ignore[arg-type]
        monkeypatch.setattr(engine.hooks, "refresh", _refreshed_at_first(engine))
        services = [counted(service, turns) for service in everything(engine)]
        async with engine.running():
            loops = [asyncio.ensure_future(supervise(one, Health(one.name), engine.clock)) for one in services]
            async with woken(services if is_woken else []):
                await asyncio.sleep(SECONDS)
            for loop in loops:
                loop.cancel()
            ended = await asyncio.gather(*loops, return_exceptions=True)
        assert [one for one in ended if not isinstance(one, asyncio.CancelledError)] == []
        return store

    if way == "hangs":
        # At its end a server waits for its writer, which waits for the database: not what is asked here.
        monkeypatch.setitem(WAYS, way, _hang_for(SECONDS + 1))
    store = in_no_time(run())

    assert len(turns) >= 13
    assert all(1 <= count <= MOST_FAILED for count in turns.values()), turns
    assert store.uses <= MOST_FAILED * len(turns)
    assert lines.count <= MOST_FAILED * len(turns)


def _hang_for(seconds: float) -> Callable[[], Any]:
    async def hang() -> None:
        await asyncio.sleep(seconds)
        raise StoreUnavailable("the database was gone")

    return hang


def _refreshed_at_first(engine: Engine) -> Callable[..., Any]:
    refresh, asked = engine.hooks.refresh, []

    async def refreshed(store: Any, **how: bool) -> None:
        """At the start the database is still there."""
        asked.append(store)
        if len(asked) > 1:
            await refresh(store, **how)

    return refreshed


class Eager(Service):
    """A service that wants to turn again at once, and never waits for anything."""

    name = "eager"

    def __init__(self, least_turn: float) -> None:
        super().__init__()
        self.least_turn = least_turn
        self.turns = 0

    async def turn(self) -> float:
        self.turns += 1
        if self.turns > TOO_MANY:
            raise Spins
        self.wake()
        return 0.0


@pytest.mark.parametrize("least_turn", [Service.least_turn, Dependants.least_turn])
def test_a_service_that_always_wants_to_turn_again_lets_others_go_on_n3(least_turn: float) -> None:
    async def run() -> int:
        eager = Eager(least_turn)
        running = asyncio.ensure_future(supervise(eager, Health("eager"), FakeClock()))
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait([running])
        return eager.turns

    assert 0.9 / least_turn <= in_no_time(run()) <= 1 / least_turn + 1

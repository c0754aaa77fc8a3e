"""PostgreSQL's clock is the one of all its servers: what their own clocks show, and how they jump, decides nothing."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.conftest import ReusedDatabase
from tests.engine.conftest import ADMIN, Shop
from tests.servers.postgres import make_shiftable
from treadle.wire.status import Status
from treadle_server.clock import SystemClock
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import FindWorker
from treadle_server.engine.dispatch.slots import WorkerSlot
from treadle_server.engine.engine import Engine
from treadle_server.services.sweeper import Sweeper
from treadle_server.store.base import Tx
from treadle_server.store.store import SqlStore

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

LEASE = {"lease_seconds": 15.0}
NEAR = 10.0
"""Seconds that may pass between two readings on a busy machine; the clocks here differ by a minute and more."""


class Machine(SystemClock):
    """A server's own clock, which differs from the others' and jumps."""

    def __init__(self, ahead: float) -> None:
        self.ahead = ahead
        self.stood_still = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return super().monotonic() - self.stood_still


class Server:
    """A server's engine and sweeper, on a machine of its own."""

    def __init__(self, engine: Engine, machine: Machine) -> None:
        self.engine = engine
        self.machine = machine
        self.shop = Shop(engine)
        self.sweeper = Sweeper(engine, interval=5, worker_timeout=60)


class Database:
    """The database, and its clock."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def fetch(self, statement: str) -> Any:
        connection = await asyncpg.connect(self.url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    async def shift(self, seconds: float) -> None:
        await self.fetch(f"UPDATE shifted.by SET seconds = seconds + {seconds} RETURNING seconds")

    async def now(self) -> datetime:
        shown: datetime = await self.fetch("SELECT clock_timestamp()")
        return shown


@pytest.fixture
def database(fresh_database: None, reused_postgres: ReusedDatabase) -> Iterator[Database]:
    """A database that no other test uses after this one."""
    yield Database(reused_postgres.take())
    reused_postgres.drop()


async def start(stack: AsyncExitStack, database: Database, ahead: float) -> Server:
    machine = Machine(ahead)
    store = SqlStore(database.url, machine=machine)
    await store.open()
    stack.push_async_callback(store.close)
    return Server(await stack.enter_async_context(Engine(store).running()), machine)


@pytest.fixture
async def servers(database: Database) -> AsyncIterator[tuple[Server, Server]]:
    """Two servers, the second of whose clocks is a minute ahead, on a database whose clock can be set."""
    await make_shiftable(database.url)
    async with AsyncExitStack() as stack:
        first, second = await start(stack, database, 0), await start(stack, database, 60)
        await first.shop.register()
        yield first, second


def apart(one: datetime | None, other: datetime) -> float:
    assert one is not None
    return abs((one - other).total_seconds())


async def test_a_server_a_minute_ahead_takes_no_run_from_the_others_worker_g5_g11_n5(database, servers) -> None:
    first, second = servers
    worker = await first.shop.worker()
    await first.shop.submit(target="camera", options=LEASE)
    [claimed] = await first.shop.claim(worker)

    for _ in range(3):
        await second.sweeper.turn()

    kept = await first.shop.get(claimed.id)
    assert kept.status is Status.CLAIMED
    assert apart(kept.taken_until, await database.now() + timedelta(seconds=15)) < NEAR
    assert (await first.shop.report(claimed, "started")).status is Status.RUNNING


@pytest.mark.parametrize("ahead", [60, -60])
async def test_what_a_skewed_server_leases_and_schedules_has_the_databases_time(database, servers, ahead) -> None:
    _, second = servers
    second.machine.ahead = ahead
    worker = await second.shop.worker()
    await second.shop.submit(options=LEASE)

    [claimed] = await second.shop.claim(worker)

    now = await database.now()
    assert apart(claimed.taken_until, now + timedelta(seconds=15)) < NEAR
    assert apart(claimed.created_at, now) < NEAR
    assert apart(second.engine.clock.now(), now) < NEAR


@pytest.mark.parametrize("step", [3600, -3600])
async def test_a_database_whose_clock_is_set_takes_no_run_from_its_worker_l5(database, servers, step) -> None:
    first, second = servers
    worker = await first.shop.worker()
    await first.shop.submit(2, options=LEASE)
    [held] = await first.shop.claim(worker)
    await second.sweeper.turn()

    await database.shift(step)
    [late] = await first.shop.claim(worker)
    for _ in range(3):
        await second.sweeper.turn()

    for task in (held, late):
        kept = await first.shop.get(task.id)
        assert kept.status is Status.CLAIMED
        assert apart(kept.taken_until, await database.now() + timedelta(seconds=15)) < NEAR


class Halt:
    """Keeps a server from the commit of its next transaction until it may go on."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_reached, self.may_go_on = asyncio.Event(), asyncio.Event()
        plain = engine.store.write

        @asynccontextmanager
        async def write(**how: Any) -> AsyncIterator[Tx]:
            async with plain(**how) as tx:
                yield tx
                self.is_reached.set()
                await self.may_go_on.wait()

        monkeypatch.setattr(engine.store, "write", write)


@pytest.mark.parametrize("step", [3600, -3600])
async def test_what_a_server_had_begun_when_the_clock_was_set_is_leased_by_the_time_that_is_l5_g8(
    database, servers, monkeypatch, step
) -> None:
    """It would be committed after the leader has stamped every lease anew, and nobody would stamp this one."""
    first, second = servers
    given: asyncio.Queue[list[Task]] = asyncio.Queue()
    worker = await second.engine.run(FindWorker(principal=ADMIN, worker_id=await second.shop.worker()))
    slot = WorkerSlot(worker.id, frozenset(worker.jobs), None, 1, 0, 0, deliver=given.put_nowait)
    second.engine.open_slot(slot)
    await first.sweeper.turn()

    halt = Halt(second.engine, monkeypatch)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(second.shop.submit(options=LEASE))
        await halt.is_reached.wait()
        await database.shift(step)
        await first.sweeper.turn()
        halt.may_go_on.set()
        [claimed] = await given.get()
    for _ in range(3):
        await first.sweeper.turn()

    kept = await first.shop.get(claimed.id)
    assert (kept.status, kept.run_id) == (Status.CLAIMED, 0)
    assert apart(kept.taken_until, await database.now() + timedelta(seconds=15)) < NEAR


@pytest.mark.parametrize("away", [600, -600])
async def test_who_believes_another_time_than_the_databases_asks_before_anything_is_leased(
    database, servers, away
) -> None:
    first, _ = servers
    worker = await first.shop.worker()
    await first.shop.submit(options=LEASE)
    # As a virtual machine that was suspended: its monotonic clock knows nothing of it.
    first.machine.stood_still += away

    [claimed] = await first.shop.claim(worker)

    assert apart(claimed.taken_until, await database.now() + timedelta(seconds=15)) < NEAR


@pytest.mark.parametrize("step", [600, -600])
async def test_a_lease_counts_from_what_the_databases_clock_was_just_set_to(database, servers, step) -> None:
    first, _ = servers
    worker = await first.shop.worker()
    await first.shop.submit(options=LEASE)
    await database.shift(step)

    [claimed] = await first.shop.claim(worker)

    assert apart(claimed.taken_until, await database.now() + timedelta(seconds=15)) < NEAR


async def test_a_skewed_clock_reads_as_the_databases_from_the_first_transaction_on(database) -> None:
    async with AsyncExitStack() as stack:
        server = await start(stack, database, ahead=86_400)

        assert apart(server.engine.clock.now(), datetime.now(UTC)) < NEAR

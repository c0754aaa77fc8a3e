"""What happens at one server gives a worker that waits at another one its work by the word of it alone (G11).

Two engines on one PostgreSQL and the relays between them run here, and no poll at all: what comes was told.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import sqlalchemy as sa

from tests.conftest import FakeClock
from tests.engine.conftest import Shop
from tests.engine.dispatch.test_dispatcher_wakeups import EVENTS, Scene
from tests.servers.conftest import until
from treadle_server.clock import SystemClock
from treadle_server.engine.engine import Engine
from treadle_server.services.base import Health, supervise
from treadle_server.services.probe import KEY, Probe
from treadle_server.services.relay.relay import Relay
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import meta

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

JOBS = ("@global:tasks:noop", "@global:tasks:nothing")


@pytest.fixture
async def shops(postgres_database: str, clock: FakeClock) -> AsyncIterator[list[Shop]]:
    """The same jobs, seen through two servers that tell each other what they do."""
    async with AsyncExitStack() as stack:
        found, relays = [], []
        for _ in range(2):
            store = SqlStore(postgres_database)
            await store.open()
            stack.push_async_callback(store.close)
            engine = Engine(store, clock=clock)
            relays.append(Relay(engine, postgres_database))
            stack.push_async_callback(relays[-1].close)
            found.append(Shop(await stack.enter_async_context(engine.running())))
        group = await stack.enter_async_context(asyncio.TaskGroup())
        turns = []
        for relay in relays:
            relay.note_peers(are_there=True)
            turns += [
                group.create_task(supervise(service, Health(service.name), SystemClock()))
                for service in (relay, relay.inbox)
            ]
        stack.callback(lambda: [turn.cancel() for turn in turns])
        await until(lambda: all(relay._listening for relay in relays))
        for name in ("noop", "nothing"):
            await found[0].register(name)
        yield found


WAYS = [(event, ["socket", "http"][number % 2]) for number, event in enumerate(EVENTS)]
"""Each happening once: both ways end where the same lanes are woken."""


@pytest.mark.parametrize(("event", "way"), WAYS, ids=lambda one: getattr(one, "__name__", one))
async def test_a_worker_that_waits_at_another_server_is_given_work_by_its_word_when(shops, clock, event, way) -> None:
    here, elsewhere = (Scene(shop, clock) for shop in shops)
    happen = await event(elsewhere)
    worker = await elsewhere.shop.worker()
    if way == "socket":
        await here.sit(worker=worker)
    else:
        await here.ask(worker)
    await here.settle()
    assert here.given == []

    await happen()

    assert len(await here.came()) == 1


async def test_what_another_servers_claim_has_locked_and_left_is_told_g11(shops, clock) -> None:
    """Two queues, a task in each: who claims one of them has locked both, and the other looks as if it were gone."""
    here, elsewhere = (Scene(shop, clock) for shop in shops)
    both = await here.shop.worker(*JOBS), await here.shop.worker(*JOBS)
    claim, is_claiming, may_go_on = elsewhere.shop.engine.dispatcher._claim, asyncio.Event(), asyncio.Event()

    async def slowly(*arguments):
        is_claiming.set()
        await may_go_on.wait()
        await claim(*arguments)

    elsewhere.shop.engine.dispatcher._claim = slowly
    for job in JOBS:
        await here.shop.submit(job=job)
    await elsewhere.sit(concurrency=1, worker=both[0], jobs=(1, 2))
    try:
        async with asyncio.timeout(20):
            await is_claiming.wait()
        await here.sit(concurrency=1, worker=both[1], jobs=(1, 2))
        await here.settle()
        assert here.given == []
    finally:
        may_go_on.set()

    assert {task.job_name for task in [*await here.came(), *await elsewhere.came()]} == set(JOBS)


async def test_two_servers_that_try_the_database_for_the_first_time_together_both_find_it_well_g11(shops) -> None:
    one, other = (shop.engine for shop in shops)

    async with one.store.write() as tx:
        await tx.connection.execute(meta.insert().values(key=KEY, value="x"))
        trying = asyncio.create_task(Probe(other).turn())
        async with one.store.read() as connection:
            waits = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
            await until(lambda: connection.execute(waits), lambda found: found.scalar_one())

    assert await trying > 0

"""Transactions that are abandoned at any point lose no tick and double none (E10, G1)."""

import random

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from tests.conftest import FakeClock
from tests.engine.conftest import Shop
from tests.schedules.conftest import Ticker
from treadle.wire.status import OPEN, TERMINAL
from treadle_server.engine import applying as module
from treadle_server.engine.engine import Engine
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import schedule_ticks

pytestmark = pytest.mark.anyio

STEPS = 80
"""At least; there are more until enough ticks have come."""
FEWEST_TICKS = 5
OFTEN = 0.25
"""The share of transactions that are broken off before what they write, and of the others that are so after it."""


class Crash(RuntimeError):
    """The server is gone before its commit."""


class Crashing:
    """Breaks every so many transactions off, before or after what they write."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.crashes = 0
        self.is_on = True
        self._write = module.write

    async def write(self, world: object, **options: object) -> None:
        if self.is_on and self.chance.random() < OFTEN:
            self.crashes += 1
            raise Crash
        await self._write(world, **options)  # type: ignore[arg-type]
        if self.is_on and self.chance.random() < OFTEN:
            self.crashes += 1
            raise Crash


async def attempt(work: object) -> None:
    """Do something that a crash may prevent; then it is done at some later time, or never."""
    try:
        await work  # type: ignore[misc]
    except Crash:
        return


@pytest.mark.parametrize("seed", range(3))
async def test_ticks_are_neither_lost_nor_doubled_under_crashes_e10_g1(
    database_url: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """After each step: at most one task is open, and every tick until the last one has its task, or a later one has."""
    chance = random.Random(seed)
    crashing = Crashing(chance)
    monkeypatch.setattr(module, "write", crashing.write)
    store = SqlStore(database_url)
    await store.open()
    start = clock.now()
    try:
        crashing.is_on = False
        async with Engine(store, clock=clock).running() as engine:
            shop = Shop(engine)
            await shop.register()
            ticker = Ticker(shop, clock)
            await ticker.set(interval_seconds=10.0)
            crashing.is_on = True
            steps = 0
            # How many ticks come is chance too: a schedule that is paused early may stay so for long.
            while steps < STEPS or len(await ticker.ticks()) <= FEWEST_TICKS:
                steps += 1
                clock.advance(chance.choice([0, 1, 3, 10, 25]))
                await step(ticker, chance)
                await check(ticker)
            crashing.is_on = False
            await ticker.pause(paused=False)
            await ticker.turn()
            # The end of one may make another, for a tick that came meanwhile.
            while found := [task for task in await ticker.tasks() if task.status in OPEN]:
                await shop.steer(found[-1], "cancel")
            clock.advance(10)
            await ticker.turn()
            made = [(tick - start).total_seconds() for tick in await ticker.ticks()]
    finally:
        await store.close()

    assert crashing.crashes > 3
    assert len(made) > FEWEST_TICKS
    assert all(tick % 10 == 0 for tick in made)
    assert made == sorted(set(made))
    # Nothing was open at the last tick: it was not lost.
    assert clock.now().timestamp() - start.timestamp() - made[-1] < 10


async def step(ticker: Ticker, chance: random.Random) -> None:
    await attempt(ticker.turn())
    found = [task for task in await ticker.tasks() if task.status in OPEN]
    if found and chance.random() < 0.5:
        await attempt(ticker.shop.steer(found[-1], "cancel"))
    elif chance.random() < 0.1:
        await attempt(ticker.pause(paused=chance.random() < 0.3))


async def check(ticker: Ticker) -> None:
    tasks = await ticker.tasks()
    assert sum(task.status in OPEN for task in tasks) <= 1
    assert all(task.status in OPEN | TERMINAL for task in tasks)
    assert len(await ticker.ticks()) == len(tasks)


async def test_the_database_itself_admits_no_second_task_for_a_tick_e10(ticker: Ticker, clock: FakeClock) -> None:
    await ticker.set()
    await ticker.pass_time(60)
    other = (await ticker.shop.submit())[0]
    store = ticker.shop.engine.store
    [tick] = await ticker.ticks()
    schedule = await ticker.get()

    with pytest.raises(IntegrityError):
        async with store.write() as tx:
            values = {"schedule_id": schedule.id, "tick": tick, "task_seq": other.seq}
            await tx.connection.execute(sa.insert(schedule_ticks), values)

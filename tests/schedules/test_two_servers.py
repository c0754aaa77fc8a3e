"""Two servers on one PostgreSQL: each tick is dealt with by one of them (E10, G11)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.conftest import FakeClock
from tests.engine.conftest import two_shops
from tests.schedules.conftest import Ticker, seconds
from treadle.wire.status import OPEN
from treadle_server.errors import InvalidTaskTransition, TaskConflict

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def tickers(postgres_database: str, clock: FakeClock) -> AsyncIterator[list[Ticker]]:
    """The same schedule, seen through two servers."""
    async with two_shops(postgres_database, clock) as found:
        yield [Ticker(shop, clock) for shop in found]


async def test_of_two_schedulers_one_makes_the_task_of_each_tick_e10_g11(
    tickers: list[Ticker], clock: FakeClock
) -> None:
    start = clock.now()
    names = [f"s{n}" for n in range(5)]
    for name in names:
        tickers[0].name = name
        await tickers[0].set()

    for turn in range(1, 6):
        clock.advance(60)
        await asyncio.gather(*(ticker.turn() for ticker in tickers for _ in range(2)))
        tasks = await tickers[0].tasks()
        assert len(tasks) == turn * len(names)
        for i, task in enumerate(task for task in tasks if task.status in OPEN):
            await tickers[i % 2].shop.steer(task, "cancel")

    assert seconds(sorted(set(await tickers[0].ticks())), start) == [60, 120, 180, 240, 300]


async def test_the_end_of_the_last_task_on_one_server_and_the_tick_on_the_other_make_one_e10_g11(
    tickers: list[Ticker], clock: FakeClock
) -> None:
    first, second = tickers
    await first.set()
    for _ in range(25):
        clock.advance(60)
        await asyncio.gather(first.turn(), second.turn())
        [task] = [task for task in await first.tasks() if task.status in OPEN]
        clock.advance(60)

        await asyncio.gather(
            cancelled(first, task), second.turn(), cancelled(second, task), first.turn(), run_now(second)
        )

        assert sum(task.status in OPEN for task in await first.tasks()) <= 1
    ticks = await first.ticks()
    # Where the one that was put in by hand came first, it held ticks up: how often hangs on who was faster.
    assert len(ticks) == len(set(ticks)) > 0


async def cancelled(ticker: Ticker, task: object) -> None:
    try:
        await ticker.shop.steer(task, "cancel")  # type: ignore[arg-type]
    except InvalidTaskTransition:
        return  # the other server was faster


async def run_now(ticker: Ticker) -> None:
    try:
        await ticker.run_now()
    except TaskConflict:
        return  # one is open


async def test_a_tick_that_another_server_is_at_is_left_to_it_and_not_waited_for_e10(
    tickers: list[Ticker], clock: FakeClock
) -> None:
    import sqlalchemy as sa

    first, second = tickers
    await first.set()
    clock.advance(60)

    async with second.shop.engine.store.write() as tx:
        await tx.connection.execute(sa.text("SELECT id FROM schedules FOR UPDATE"))
        async with asyncio.timeout(20):
            assert await first.scheduler.turn() > 0
        assert await first.tasks() == []

    await first.turn()
    assert len(await first.tasks()) == 1

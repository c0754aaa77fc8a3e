"""A step of the store's clock fills no bucket, though each of two servers notices it at its own time (G11)."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from tests.conftest import FakeClock
from tests.engine.conftest import Shop, look, two_shops
from tests.engine.test_limits import named, set_limit
from tests.waiting import until
from treadle.wire.ids import WorkerId
from treadle_server.domain.limits import BucketId, bucket_of, number_of
from treadle_server.engine.commands import OpenLimits
from treadle_server.store.transaction.limit_rows import lock_limits

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

_NUM = number_of("@global", "api")
BUCKET = BucketId(_NUM, bucket_of(_NUM, None))


class Pair:
    """Two servers with a worker each, which believe each its own clock to be the store's."""

    def __init__(self, clocks: tuple[FakeClock, FakeClock], shops: tuple[Shop, Shop]) -> None:
        self.clocks = clocks
        self.shops = shops
        self.workers: list[WorkerId] = []

    def advance(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.advance(seconds)

    def jump(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.jump(seconds)

    async def begin(self, *, seconds: float, burst: int, left: int = 0) -> None:
        """Have tasks wait for a bucket with so many tokens `left`, into which one comes in so many `seconds`."""
        await set_limit(self.shops[0], rate=(1, seconds), burst=burst)
        self.workers = [await shop.worker() for shop in self.shops]
        await self.shops[0].submit(2 * burst + 5, limits=named())
        assert len(await self.shops[0].claim(self.workers[0], burst - left)) == burst - left
        # Each has begun to decide about limits.
        for number in (1, 0):
            await self.shops[number].engine.run(OpenLimits([BUCKET]))

    async def claimed(self, number: int) -> int:
        """Return how many tasks the server's worker gets when the server looks for what has come."""
        shop = self.shops[number]
        await shop.engine.run(OpenLimits())
        await look(shop)
        return len(await shop.claim(self.workers[number], 10))

    async def is_waiting(self, count: int) -> bool:
        """Return whether so many transactions wait for the lock of the limits."""
        async with self.shops[0].engine.store.read() as connection:
            statement = sa.text(
                "SELECT objid FROM pg_locks JOIN pg_database ON oid = database"
                " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
            )
            return list((await connection.execute(statement)).scalars()).count(7421) == count


@pytest.fixture
async def pair(postgres_database: str) -> AsyncIterator[Pair]:
    clocks = FakeClock(), FakeClock()
    async with two_shops(postgres_database, *clocks) as shops:
        yield Pair(clocks, shops)


@pytest.mark.parametrize("step", [3600, -3600])
async def test_who_began_before_a_step_decides_nothing_after_one_who_noticed_it_g11(pair, step) -> None:
    """Its time is that of before, and it has the lock of the limits after the other one."""
    first, second = pair.shops
    await pair.begin(seconds=60, burst=2, left=1)

    async with asyncio.TaskGroup() as group, first.engine.store.write() as tx:
        await lock_limits(tx)
        pair.clocks[0].jump(step)
        group.create_task(first.engine.run(OpenLimits()))
        await until(lambda: pair.is_waiting(1))
        late = group.create_task(second.claim(pair.workers[1], 10))
        await until(lambda: pair.is_waiting(2))
        pair.clocks[1].jump(step)

    assert len(late.result()) == 1
    assert [await pair.claimed(number) for number in (0, 1, 0)] == [0, 0, 0]
    pair.advance(60)
    assert [await pair.claimed(number) for number in (0, 1)] == [1, 0]


@pytest.mark.parametrize("step", [3600, -3600])
async def test_a_step_that_another_server_has_dealt_with_takes_nothing_of_what_filled_since_g11(pair, step) -> None:
    await pair.begin(seconds=10, burst=4)
    pair.jump(step)
    assert await pair.claimed(0) == 0

    pair.advance(30)

    assert await pair.claimed(1) == 3


@pytest.mark.parametrize("step", [3600, -3600])
async def test_a_clock_set_there_and_back_that_one_server_has_not_noticed_fills_nothing_g11(pair, step) -> None:
    await pair.begin(seconds=60, burst=2)
    pair.jump(step)
    assert await pair.claimed(0) == 0

    pair.jump(-step)

    assert [await pair.claimed(number) for number in (1, 0, 1)] == [0, 0, 0]
    pair.advance(60)
    assert [await pair.claimed(number) for number in (0, 1)] == [1, 0]


@pytest.mark.parametrize("step", [3600, -3600])
async def test_a_server_that_never_saw_a_step_which_others_noted_settles_it_once_g11(pair, step) -> None:
    """As one that came between the step and its being noticed: nobody forgets without end what has filled."""
    await pair.begin(seconds=10, burst=4)
    pair.jump(step)
    pair.clocks[1].passed += step
    pair.workers[1] = await pair.shops[1].worker()

    assert await pair.claimed(0) == 0
    for shop in pair.shops * 2:
        await shop.engine.run(OpenLimits([BUCKET]))

    pair.advance(30)
    assert [await pair.claimed(number) for number in (1, 0)] == [3, 0]
    pair.advance(10)
    assert await pair.claimed(0) == 1

"""Buckets of limits that are full leave no row behind, and are what they would be with one."""

import pytest
import sqlalchemy as sa

from tests.conftest import FakeClock
from tests.engine.test_limits import ids, named, set_limit
from treadle_server.domain.limits import BucketId
from treadle_server.engine.commands import ForgetIdle, OpenLimits
from treadle_server.services.sweeper import Sweeper
from treadle_server.store.read import limit_keys
from treadle_server.store.read.limit_keys import IDLE, idle_buckets
from treadle_server.store.tables import limit_tokens

pytestmark = pytest.mark.anyio


async def buckets(shop) -> int:
    async with shop.engine.store.read() as connection:
        return (await connection.execute(sa.select(sa.func.count()).select_from(limit_tokens))).scalar_one()


async def take_each(shop, keys: str, n: int = 1) -> int:
    """Have tasks of each key claimed, as many as the limit lets begin; return how many began."""
    worker = await shop.worker()
    tasks = [task for key in keys for task in await shop.submit(n, limits=named(key=key))]
    begun = await shop.claim(worker, 100)
    for task in begun:
        await shop.run(task)
    for task in tasks:
        if str(task.id) not in ids(begun):
            await shop.steer(task, "cancel")
    return len(begun)


async def sweep(shop, clock: FakeClock, times: int = 1) -> None:
    sweeper = Sweeper(shop.engine, interval=5, worker_timeout=7200)
    await sweeper.turn()
    # As the promoter does: nobody is noted to wait any more whose tasks were cancelled.
    await shop.engine.run(OpenLimits())
    for _ in range(times):
        clock.advance(5)
        await sweeper.turn()


async def test_keys_that_are_full_again_leave_no_row_and_begin_full(shop, clock, monkeypatch) -> None:
    monkeypatch.setattr(limit_keys, "MOST_LOOKED_AT", 2)
    await set_limit(shop, rate=(2, 10))
    assert await take_each(shop, "abcde", 3) == 10
    assert await buckets(shop) == 5

    await sweep(shop, clock, 4)
    assert await buckets(shop) == 5
    clock.advance(10 + IDLE.total_seconds())
    await sweep(shop, clock, 4)

    assert await buckets(shop) == 0
    assert await take_each(shop, "abcde", 3) == 10


async def test_a_key_that_is_not_full_yet_keeps_its_row(shop, clock) -> None:
    await set_limit(shop, rate=(1, 3600), burst=2)
    assert await take_each(shop, "a", 3) == 2
    clock.advance(3600)

    await sweep(shop, clock)

    assert await buckets(shop) == 1
    assert await take_each(shop, "a", 3) == 1


async def test_a_key_that_was_used_since_it_was_looked_at_keeps_its_row(shop, clock) -> None:
    await set_limit(shop, rate=(2, 10))
    await take_each(shop, "a", 3)
    clock.advance(10)
    await shop.engine.run(OpenLimits())
    clock.advance(10 + IDLE.total_seconds())
    async with shop.engine.store.read() as connection:
        found, _ = await idle_buckets(connection, clock.now(), after=None)
    assert len(found) == 1
    assert await take_each(shop, "a", 3) == 2

    await shop.engine.run(ForgetIdle(found))

    assert await buckets(shop) == 1
    assert await take_each(shop, "a", 3) == 0


async def test_a_key_that_somebody_waits_for_keeps_its_row(shop, clock) -> None:
    await set_limit(shop, rate=(1, 10))
    worker = await shop.worker()
    _, waiting = await shop.submit(2, limits=named(key="a"))
    assert len(await shop.claim(worker, 2)) == 1
    clock.advance(10 + IDLE.total_seconds())
    async with shop.engine.store.read() as connection:
        rows = await connection.execute(sa.select(limit_tokens.c.limit_num, limit_tokens.c.bucket))
        every = [BucketId(*row) for row in rows]

    await shop.engine.run(ForgetIdle(every))
    assert await buckets(shop) == 1
    await sweep(shop, clock)

    assert await buckets(shop) == 0
    assert ids(await shop.claim(worker, 2)) == [str(waiting.id)]


async def test_rows_of_a_limit_without_a_rate_go(shop, clock) -> None:
    await set_limit(shop, rate=(1, 3600))
    assert await take_each(shop, "ab") == 2
    await set_limit(shop, concurrency=1)

    await sweep(shop, clock)
    assert await buckets(shop) == 0

    await set_limit(shop, rate=(1, 3600))
    assert await take_each(shop, "ab") == 2

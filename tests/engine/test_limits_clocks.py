"""Time fills a bucket once, though transactions that follow each other may have times that do not."""

import pytest

from tests.engine.test_limits import ids, named, set_limit
from treadle_server.engine.commands import OpenLimits

pytestmark = pytest.mark.anyio


async def test_a_time_before_that_of_the_last_transaction_fills_a_bucket_with_nothing_twice(shop, clock) -> None:
    """Two servers look at the database's clock each for itself, and are some hundredths of a second apart."""
    await set_limit(shop, rate=(1, 10.0), burst=2)
    worker = await shop.worker()
    tasks = await shop.submit(3, limits=named())
    assert ids(await shop.claim(worker, 1)) == [str(tasks[0].id)]
    clock.jump(-1.0)
    assert ids(await shop.claim(worker, 10)) == [str(tasks[1].id)]

    clock.jump(1.0)
    clock.advance(9.0)
    await shop.engine.run(OpenLimits())
    assert await shop.claim(worker, 10) == []
    clock.advance(1.0)
    await shop.engine.run(OpenLimits())
    assert ids(await shop.claim(worker, 10)) == [str(tasks[2].id)]


async def test_a_clock_that_was_set_back_while_no_server_ran_keeps_no_bucket_shut(shop, clock) -> None:
    """Nobody noticed: then what is filled until an hour from now is filled until now."""
    await set_limit(shop, rate=(1, 10.0))
    worker = await shop.worker()
    await shop.submit(limits=named())
    assert len(await shop.claim(worker, 10)) == 1

    clock.jump(-3600.0)
    clock.passed -= 3600.0
    [task] = await shop.submit(limits=named())
    assert await shop.claim(worker, 10) == []
    clock.advance(10.0)
    await shop.engine.run(OpenLimits())
    assert ids(await shop.claim(worker, 10)) == [str(task.id)]

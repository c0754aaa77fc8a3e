"""Tasks with limits that stand behind those which are too heavy for a worker: they count as all others do (F1, E5)."""

import pytest

from tests.engine.test_limits import ids, named, set_limit, uses

pytestmark = pytest.mark.anyio


async def test_f1_what_is_claimed_from_behind_heavy_tasks_counts_against_its_limits_e5(shop) -> None:
    await set_limit(shop, concurrency=1)
    big, small = await shop.worker(concurrency=9), await shop.worker(concurrency=1)
    # So many that the head which is kept has none with a limit.
    await shop.submit(40, options={"weight": 9})
    first, second = await shop.submit(2, limits=named())
    [_] = await shop.claim(big)

    claimed = await shop.claim(small)
    third = await shop.submit(limits=named())
    others = await shop.claim(await shop.worker(concurrency=1), 3)

    assert (ids(claimed), ids(others)) == (ids([first]), [])
    assert await uses(shop) == [(0, 1)]
    await shop.run(claimed[0])
    assert ids(await shop.claim(small, 3)) == ids([second])
    assert len(third) == 1


async def test_f1_what_waits_until_its_worker_has_room_takes_none_of_its_limits_e5(shop) -> None:
    await set_limit(shop, concurrency=1)
    busy = await shop.worker(concurrency=3)
    await shop.submit(options={"weight": 2})
    [first] = await shop.claim(busy)
    heavy = await shop.submit(limits=named(), options={"weight": 2})

    assert await shop.claim(busy) == []
    assert await uses(shop) == []
    assert ids(await shop.claim(await shop.worker(concurrency=2))) == ids(heavy)
    assert await uses(shop) == [(0, 1)]
    await shop.run(first)

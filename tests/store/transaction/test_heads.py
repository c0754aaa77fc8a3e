"""A queue is read on from a place: first what is as urgent, then what is less so, in its order and no more than asked.

On both databases.
"""

from datetime import timedelta

import pytest

from treadle_server.store.transaction.heads import heads, heads_after, waiting_lanes

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("fresh_database")]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("first", range(7))
async def test_a_queue_is_read_on_in_its_order_over_the_bounds_of_priorities_e2(shop, clock, first, most) -> None:
    for priority in (1, 5, 9, 5, 1, 5, 0):
        await shop.submit(1, options={"priority": priority})
        clock.advance(0.001)

    async with shop.engine.store.write() as tx:
        [lane] = await waiting_lanes(tx)
        now = clock.now() + timedelta(seconds=1)
        whole = (await heads(tx, [lane], 100, now))[lane]
        found = await heads_after(tx, {lane: whole[first]}, most, now)

    assert [task.priority for task in whole] == [9, 5, 5, 5, 1, 1, 0]
    assert [task.seq for task in found[lane]] == [task.seq for task in whole[first + 1 : first + 1 + most]]

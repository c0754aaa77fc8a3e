"""Rows that are put in: how many before others have their turn."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from tests.engine.conftest import Shop
from treadle_server.store.tables import task_tags
from treadle_server.store.transaction.rows import MOST_AT_ONCE, insert_tuples

pytestmark = pytest.mark.anyio


async def test_others_have_their_turn_between_the_many_rows_of_one_submit_n2(shop: Shop) -> None:
    """The tags of a thousand tasks held the loop for seconds."""
    [task] = await shop.submit()
    taken: Counter[int] = Counter()
    turn = 0

    async def turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def rows() -> Iterator[tuple[int, int]]:
        for key in range(2 * MOST_AT_ONCE + 3):
            taken[turn] += 1
            yield key, task.seq

    counting = asyncio.create_task(turns())
    async with shop.engine.store.write() as tx:
        await insert_tuples(tx, task_tags, ("key", "task_seq"), rows())
    counting.cancel()

    assert max(taken.values()) <= MOST_AT_ONCE
    async with shop.engine.store.read() as connection:
        of_task = select(func.count()).select_from(task_tags).where(task_tags.c.task_seq == task.seq)
        assert await connection.scalar(of_task) == 2 * MOST_AT_ONCE + 3

"""Who waits for which task's end, and how many are asked for at once."""

import asyncio

from treadle.client.results import ResultWaiters
from treadle.errors import ConnectionFailed
from treadle.wire.fields import MOST_OF_REQUEST


async def test_of_more_tasks_than_one_request_may_name_the_rest_is_asked_for_by_further_ones() -> None:
    asked: list[int] = []

    async def ask(ids: list[str]) -> None:
        asked.append(len(ids))

    async with asyncio.TaskGroup() as group:
        waiters = ResultWaiters(ask, group.create_task)
        for number in range(2 * MOST_OF_REQUEST + 1):
            waiters.wait(str(number))

    assert asked == [MOST_OF_REQUEST, MOST_OF_REQUEST, 1]


async def test_each_of_those_who_are_told_that_nobody_will_be_told_raises_an_error_of_its_own() -> None:
    """Of a thousand that waited the last one's traceback had the places of all."""

    async def ask(_: list[str]) -> None: ...

    async with asyncio.TaskGroup() as group:
        waiters = ResultWaiters(ask, group.create_task)
        waiting = [waiters.wait(task_id) for task_id in ("a", "b")]
        waiters.fail(ConnectionFailed("no server answers"))

    one, other = (future.exception() for future in waiting)
    assert one is not other
    assert str(one) == str(other) == "no server answers"

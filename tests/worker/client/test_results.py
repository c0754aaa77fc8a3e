"""Who waits for which task's end, and how many are asked for at once."""

import asyncio
from typing import Any

import pytest

from tests.worker.fakes import fake_server
from treadle import Client
from treadle.client.results import ResultWaiters
from treadle.errors import ConnectionFailed, ConnectionLost
from treadle.ids import new_task_id
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


@pytest.mark.parametrize("odd", [{}, {"status": 7}, {"status": "running"}])
async def test_an_end_that_can_not_be_read_is_told(odd: dict[str, Any]) -> None:
    """It was a `KeyError` for who waited, or a failure of a task that was running."""
    task_id, pushing = new_task_id(), set[asyncio.Task[None]]()

    def answer(item: dict[str, Any]) -> dict[str, Any]:
        if item["op"] == "await":
            pushing.add(asyncio.create_task(fake.push(push="result", tasks=[{"id": task_id, **odd}])))
        return {"missing": []}

    async with fake_server(answer) as fake, Client(fake.url, token="any", patience=0) as client:
        with pytest.raises(ConnectionLost, match="the server's answer can't be read"):
            await client.handle(task_id).result(20)

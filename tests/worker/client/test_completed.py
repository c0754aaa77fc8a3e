"""Handles are gone through as their tasks end: however they end, in time, by code that blocks too."""

import asyncio
from contextlib import aclosing

import pytest

from tests.waiting import until
from tests.worker.conftest import Working
from treadle import Client, SyncClient, TaskFailed, TaskHandle, WaitTimeout, new_task_id, task
from treadle.errors import InvalidArguments, TaskNotFound
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio

opened: dict[str, asyncio.Event] = {}


@task(max_retries=0)
async def in_turn(name: str, fails: bool = False) -> str:
    await opened.setdefault(name, asyncio.Event()).wait()
    if fails:
        raise ValueError(name)
    return name


@pytest.fixture(autouse=True)
def _all_closed() -> None:
    opened.clear()


def let_end(name: str) -> None:
    opened.setdefault(name, asyncio.Event()).set()


async def test_they_come_in_the_order_of_their_ends_and_give_what_each_came_to(
    client: Client, working: Working
) -> None:
    handles = [await client.submit(in_turn.bind(name, fails=name == "b")) for name in "abc"]
    seen = []
    async with working(in_turn), aclosing(client.completed(handles, 90)) as ended:
        for name in "cba":
            let_end(name)
            handle = await anext(ended)
            assert handle is handles["abc".index(name)]
            try:
                seen.append(await handle.result(90))
            except TaskFailed as error:
                seen.append(type(error).__name__)
        assert [one async for one in ended] == []

    assert seen == ["c", "TaskFailed", "a"]


async def test_those_that_have_ended_come_first_and_none_of_none(client: Client, working: Working) -> None:
    first, second = [await client.submit(in_turn.bind(name)) for name in "ab"]
    let_end("a")
    async with working(in_turn):
        await first.wait(90)
        async with aclosing(client.completed([second, first])) as ended:
            assert await anext(ended) is first
    assert [one async for one in client.completed([])] == []


async def test_all_together_have_so_much_time(client: Client, working: Working) -> None:
    handles = [await client.submit(in_turn.bind(name)) for name in "abc"]
    let_end("a")
    async with working(in_turn):
        await handles[0].wait(90)
        given = []
        with pytest.raises(WaitTimeout, match=r"2 tasks of 3 had not ended after 0\.5 s; they go on"):
            async for one in client.completed(handles, 0.5):
                given.append(one)  # noqa: PERF401 - what came before the error counts
        assert given == [handles[0]]
        assert await by_now(client, handles[::-1]) == ([handles[0]], "2 tasks of 3 had not ended after 0 s; they go on")
        for name in "bc":
            let_end(name)
        for handle in handles:
            await handle.wait(90)
        assert await by_now(client, handles) == (handles, "")
    with pytest.raises(TaskNotFound):
        await by_now(client, [client.handle(new_task_id())])
    with pytest.raises(InvalidArguments, match="timeout='5' is not a duration"):
        await anext(client.completed(handles, "5"))  # type: ignore[arg-type]


async def by_now(client: Client, handles: list[TaskHandle[str]]) -> tuple[list[TaskHandle[str]], str]:
    """Return the handles that come without any time, and the error after them."""
    given = []
    try:
        async for one in client.completed(handles, 0):
            given.append(one)  # noqa: PERF401 - what came before the error counts
    except WaitTimeout as error:
        return given, str(error)
    return given, ""


async def test_what_is_not_there_is_told(client: Client) -> None:
    with pytest.raises(TaskNotFound):
        await anext(client.completed([client.handle(new_task_id())], 90))


async def test_what_is_no_handle_is_told_with_what_to_give(client: Client) -> None:
    task_id = new_task_id()

    with pytest.raises(
        InvalidArguments, match=f"takes a TaskHandle for each task, .*handle.id. return, not '{task_id}"
    ):
        await anext(client.completed([client.handle(task_id), task_id]))  # type: ignore[list-item]
    with pytest.raises(InvalidArguments, match=r"takes a SyncHandle for each task, .* not <TaskHandle"):
        next(SyncClient().completed([client.handle(task_id)]))  # type: ignore[list-item]


async def test_whoever_stops_leaves_nobody_waiting(client: Client, working: Working) -> None:
    handles = [await client.submit(in_turn.bind(name)) for name in "ab"]
    let_end("a")
    before = len(asyncio.all_tasks())
    async with working(in_turn):
        async with aclosing(client.completed(handles, 90)) as ended:
            assert await anext(ended) is handles[0]
        let_end("b")
        await handles[1].wait(90)
    # What ends with the worker's connection ends a moment later.
    await until(lambda: len(asyncio.all_tasks()), lambda left: left <= before)


async def test_code_that_blocks_goes_through_them_too(server: Served, working: Working) -> None:
    def use() -> list[str]:
        with SyncClient(server.url, server.token) as client:
            handles = [client.submit(in_turn.bind(name)) for name in "ab"]
            ended = client.completed(handles, 90)
            loop.call_soon_threadsafe(let_end, "b")
            first = next(ended)
            loop.call_soon_threadsafe(let_end, "a")
            return [one.result(90) for one in (first, *ended)]

    loop = asyncio.get_running_loop()
    async with working(in_turn):
        assert await asyncio.to_thread(use) == ["b", "a"]

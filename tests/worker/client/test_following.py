"""A task is followed to its end: as it is pushed, over broken connections, by looks where nothing is pushed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from tests.waiting import until
from tests.worker.conftest import Working
from tests.worker.proxies import Proxy, proxy_to
from treadle import Client, Context, Options, SyncClient, WaitTimeout, new_task_id, task
from treadle.client import following
from treadle.errors import InvalidArguments, NoClient, TaskNotFound
from treadle.wire.tasks import TaskItem
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio

Next = Callable[[Callable[[TaskItem], object]], Awaitable[TaskItem]]


class Gate:
    """Lets a task go on, a bit at a time."""

    def __init__(self) -> None:
        self.opened = asyncio.Semaphore(0)


gate = Gate()


@pytest.fixture(autouse=True)
def _closed() -> None:
    gate.opened = asyncio.Semaphore(0)


@task
async def in_parts(ctx: Context, parts: int = 2) -> str:
    for part in range(parts):
        await gate.opened.acquire()
        ctx.progress((part + 1) / parts, f"part {part + 1}")
    await gate.opened.acquire()
    return "done"


@task
async def at_once(text: str) -> str:
    return text


@pytest.fixture
async def proxy(server: Served) -> AsyncIterator[Proxy]:
    async with proxy_to(server.url) as proxy:
        yield proxy


@pytest.fixture(params=["socket", "http"])
async def asking(request: pytest.FixtureRequest, proxy: Proxy, server: Served) -> AsyncIterator[Client]:
    """A client on the socket, and one where none can be opened."""
    proxy.refuses_sockets = request.param == "http"
    async with Client(proxy.url, server.token) as client:
        yield client


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PAUSE", 0.02)


def seeking(states: Any) -> Next:
    """Return what goes through the states to the next one that is as wanted."""

    async def seek(is_wanted: Callable[[TaskItem], object]) -> TaskItem:
        async for state in states:
            if is_wanted(state):
                return state
        raise AssertionError("the task ended without it")

    return seek


async def test_each_change_is_given_until_the_end(asking: Client, working: Working) -> None:
    handle = await asking.submit(in_parts.bind())
    async with aclosing(handle.follow(90)) as states:
        seek = seeking(states)
        first = await seek(bool)
        assert (first.status, first.queue_position) == ("pending", 1)
        async with working(in_parts):
            await seek(lambda state: state.status == "running")
            gate.opened.release()
            half = await seek(lambda state: state.progress)
            assert half.progress == {"share": 0.5, "message": "part 1"}
            gate.opened.release()
            gate.opened.release()
            last = await seek(lambda state: state.status == "completed")
            assert last.result == "done"
            assert [state async for state in states] == []


async def test_of_an_ended_task_its_end_is_given(asking: Client, working: Working) -> None:
    handle = await asking.submit(at_once.bind("well"))
    async with working(at_once):
        await handle.wait(90)

    for limit in (90, 0, -1):
        assert [(state.status, state.result) async for state in handle.follow(limit)] == [("completed", "well")]


async def test_without_any_time_a_task_is_looked_at_once(asking: Client) -> None:
    handle = await asking.submit(at_once.bind("well"))
    states = handle.follow(0)

    assert (await anext(states)).status == "pending"
    with pytest.raises(WaitTimeout, match="had not ended after 0 s"):
        await anext(states)
    with pytest.raises(TaskNotFound):
        await anext(asking.handle(new_task_id()).follow(0))
    with pytest.raises(WaitTimeout):
        await anext(asking.expect(new_task_id()).follow(0))


async def test_code_that_blocks_follows_too(server: Served, working: Working) -> None:
    def follow() -> list[str]:
        with SyncClient(server.url, server.token) as client:
            handle = client.submit(at_once.bind("well"))
            return [state.status for state in handle.follow(90)]

    async with working(at_once):
        seen = await asyncio.to_thread(follow)

    assert seen[-1] == "completed"
    assert len(set(seen)) == len(seen)


async def test_what_is_too_long_for_a_push_is_given_whole(client: Client, working: Working) -> None:
    text = "x" * 20_000
    handle = await client.submit(at_once.bind(text))
    async with working(at_once):
        states = [state async for state in handle.follow(90)]

    assert all((state.payload, state.left_out) == ({"text": text}, None) for state in states)
    assert states[-1].result == text


async def test_a_broken_connection_loses_no_change(proxy: Proxy, server: Served, working: Working) -> None:
    async with Client(proxy.url, server.token) as client, working(in_parts):
        handle = await client.submit(in_parts.bind())
        async with aclosing(handle.follow(90)) as states:
            seek = seeking(states)
            await seek(lambda state: state.status == "running")
            proxy.cut()
            gate.opened.release()
            await seek(lambda state: state.progress)
            proxy.refuses_sockets = True
            proxy.cut()
            gate.opened.release()
            await seek(lambda state: state.progress["share"] == 1)
            proxy.refuses_sockets = False
            await until(lambda: not client.is_plain)
            gate.opened.release()
            await seek(lambda state: state.status == "completed")


async def test_who_follows_no_more_is_pushed_nothing(client: Client) -> None:
    handle = await client.submit(in_parts.bind())
    states = handle.follow()
    await anext(states)
    [watched] = client.opening().watches._watched.values()
    await states.aclose()

    assert await until(lambda: not client.opening().watches._watched)
    assert await client.call("unwatch", {"sub": watched.sub}) == {}


@pytest.mark.inside
async def test_the_server_keeps_nothing_of_who_follows_no_more(client: Client, server: Served) -> None:
    handle = await client.submit(in_parts.bind())
    async for _ in handle.follow():
        assert server.app.state.live.feeds._feeds
        break

    assert await until(lambda: not server.app.state.live.feeds._feeds)


async def test_more_than_a_session_watches_are_looked_at(client: Client, working: Working) -> None:
    handles = await client.submit_many([in_parts.bind(parts=0) for _ in range(103)])
    states = [handle.follow(90) for handle in handles]
    assert {(await anext(one)).status for one in states} == {"pending"}
    for _ in handles:
        gate.opened.release()
    async with working(in_parts, concurrency=103):
        for one in states:
            await seeking(one)(lambda state: state.status == "completed")


async def test_who_may_list_nothing_follows_what_it_has_submitted(
    client: Client, server: Served, working: Working
) -> None:
    await client.register(at_once)
    made = await client.create_token("narrow", scopes=["queue:create-task:@global/*"])
    async with Client(server.url, made.token) as narrow, working(at_once):
        handle = await narrow.submit(at_once.bind("well"))
        assert [state async for state in handle.follow(90)][-1].result == "well"


async def test_what_is_not_there_is_told_and_what_is_to_come_is_waited_for(asking: Client, working: Working) -> None:
    task_id = new_task_id()
    with pytest.raises(TaskNotFound):
        await anext(asking.handle(task_id).follow(90))

    async with aclosing(asking.expect(task_id).follow(90)) as states:
        waiting = asyncio.ensure_future(anext(states))
        await asking.submit(at_once.bind("late"), options=Options(id=task_id))
        assert (await waiting).id == task_id
        async with working(at_once):
            assert [state async for state in states][-1].result == "late"


async def test_who_may_list_nothing_follows_what_it_is_yet_to_submit(
    client: Client, server: Served, working: Working
) -> None:
    await client.register(at_once)
    made = await client.create_token("narrow", scopes=["queue:create-task:@global/*"])
    task_id = new_task_id()
    async with (
        Client(server.url, made.token) as narrow,
        working(at_once),
        aclosing(narrow.expect(task_id).follow(90)) as states,
    ):
        waiting = asyncio.ensure_future(anext(states))
        await until(lambda: narrow.opening().watches._watched)
        await narrow.submit(at_once.bind("late"), options=Options(id=task_id))
        seen = [await waiting, *[state async for state in states]]
        assert seen[-1].result == "late"


async def test_what_has_come_and_was_pruned_comes_no_more(asking: Client, client: Client) -> None:
    handle = await client.submit(in_parts.bind())
    async with aclosing(asking.expect(handle.id).follow(90)) as states:
        await anext(states)
        await handle.cancel()
        await client.prune(older_than=0)
        with pytest.raises(TaskNotFound):
            await anext(states)


async def test_it_ends_in_time(asking: Client) -> None:
    handle = await asking.submit(in_parts.bind())
    with pytest.raises(WaitTimeout, match=f"{handle.id} had not ended after 0.3 s; it goes on"):
        async for state in handle.follow(0.3):
            assert state.status == "pending"
    with pytest.raises(InvalidArguments, match=r"timeout='5' is not a duration"):
        await anext(handle.follow("5"))  # type: ignore[arg-type]


async def test_a_client_that_is_closed_tells_nothing_more(server: Served) -> None:
    async with Client(server.url, server.token) as client:
        handle = await client.submit(in_parts.bind())
        states = handle.follow(90)
        await anext(states)

    with pytest.raises(NoClient):
        await anext(states)
    async with client:
        assert (await anext(handle.follow(90))).status == "pending"


def test_what_a_heartbeat_changes_is_no_change() -> None:
    assert following._seen({"id": "a", "taken_until": 1}) == following._seen({"id": "a", "taken_until": 2})
    assert following._seen({"id": "a", "status": "pending"}) != following._seen({"id": "a", "status": "running"})

"""When a client is open, which one `task.submit` finds, and what happens to whoever asks one that is not."""

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from treadle import Client, SyncClient, TaskHandle, current_client, errors, new_task_id, task
from treadle_server.testing import Served, serve


@task
def double(n: int) -> int:
    return 2 * n


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serve() as served:
        yield served


async def in_thread(function: Callable[[], Any]) -> Any:
    """Run in a thread that knows nothing of this context."""
    return await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(None, function), 30)


def nowhere(**options: Any) -> Client:
    """A client that finds no server."""
    return Client("http://127.0.0.1:9", "x", patience=0, **options)


@pytest.mark.parametrize("state", ["never opened", "closed"])
async def test_a_client_that_is_not_open_says_so_at_once(state: str) -> None:
    client = nowhere()
    task_id = new_task_id()
    handle: TaskHandle[Any] = client.handle(task_id)
    if state == "closed":
        async with client:
            pass

    async with asyncio.timeout(20):
        for work in (
            client.submit(double.bind(1)),
            client.submit_many([double.bind(1)]),
            client.submit_raw("@global:tasks:double", {}),
            client.ping(),
            client.get(task_id),
            client.stats(),
            client.list().page(),
            client.download(task_id, "y", "."),
            handle.result(),
            handle.cancel(),
        ):
            with pytest.raises(errors.NoClient, match="is not open: use it inside `async with client:`"):
                await work
    assert not client.is_open


def test_a_blocking_client_that_is_not_open_says_so_at_once() -> None:
    client = SyncClient("http://127.0.0.1:9", "x")
    with client:
        assert client.is_open

    for call in (client.ping, client.stats, client.list, partial(client.submit, double.bind(1))):
        with pytest.raises(errors.NoClient, match="SyncClient: `with client:`"):
            call()


async def test_a_client_is_opened_again_after_it_was_closed(server: Served) -> None:
    client = Client(server.url, server.token)
    async with client:
        handle = await client.submit(double.bind(1))
    async with client:
        assert (await handle.get()).id == handle.id
        await handle.cancel()
        with pytest.raises(errors.TaskCancelled):
            await handle.result(20)
    await client.open()
    assert await client.ping()
    await client.open()
    await client.close()
    await client.close()
    assert not client.is_open


def test_a_client_is_opened_again_in_another_event_loop() -> None:
    client = nowhere()

    async def use() -> bool:
        async with client:
            return client.is_open

    assert [asyncio.run(use()), asyncio.run(use())] == [True, True]
    # Left open when its loop ended.
    asyncio.run(client.open())
    assert not client.is_open
    with pytest.raises(errors.NoClient, match="the event loop in which it was opened has ended: open it in this one"):
        asyncio.run(client.ping())
    assert asyncio.run(use())


async def test_blocks_of_one_client_are_nested_and_an_opened_one_outlives_them() -> None:
    client = nowhere()

    async with client:
        async with client:
            pass
        assert client.is_open
    assert not client.is_open
    await client.open()
    async with client:
        pass
    assert client.is_open
    async with client:
        await client.close()
        assert not client.is_open


def test_blocks_of_one_blocking_client_are_nested_too() -> None:
    client = SyncClient("http://127.0.0.1:9", "x")

    with client:
        with client:
            pass
        assert client.is_open
    assert not client.is_open
    assert client.open().open().is_open
    with client:
        pass
    assert client.is_open
    client.close()
    client.close()
    assert not client.is_open


async def test_whoever_waits_is_told_when_the_client_is_closed(server: Served) -> None:
    async with Client(server.url, server.token) as client:
        handle = await client.submit(double.bind(1))
        waiting = asyncio.ensure_future(handle.result())
        submitting = asyncio.ensure_future(client.submit(double.bind(2)))
        await asyncio.sleep(0)

    async with asyncio.timeout(20):
        with pytest.raises(errors.ConnectionFailed, match="closed before the task ended"):
            await waiting
        with pytest.raises(errors.ConnectionLost, match="closed before the answer"):
            await submitting


async def test_a_result_is_asked_for_again_after_the_server_was_away(server: Served) -> None:
    async with Client(server.url, server.token) as client:
        handle = await client.submit(double.bind(1))
        waiting = asyncio.ensure_future(handle.result())
        await asyncio.sleep(0)
        client.opening().waiters.fail(errors.ConnectionFailed("away"))
        with pytest.raises(errors.ConnectionFailed, match="away"):
            await waiting

        await client.cancel(handle.id)

        with pytest.raises(errors.TaskCancelled):
            await handle.result(20)


async def test_the_innermost_client_is_found_and_closed_ones_are_passed_over() -> None:
    async with nowhere() as outer:
        assert current_client() is outer
        async with nowhere() as inner:
            assert current_client() is inner
            outlives = asyncio.ensure_future(asyncio.sleep(0, current_client))
        assert current_client() is outer
        assert (await outlives)() is outer
    with pytest.raises(errors.NoClient, match="no client is open"):
        current_client()


async def test_the_only_client_of_the_process_is_found_from_threads_tasks_and_other_loops() -> None:
    client = await nowhere().open()
    try:
        assert current_client() is client
        assert await in_thread(current_client) is client

        async def elsewhere() -> Client:
            return current_client()

        assert await in_thread(lambda: asyncio.run(elsewhere())) is client
    finally:
        await client.close()
    with pytest.raises(errors.NoClient):
        await in_thread(current_client)


async def test_which_of_several_clients_is_meant_is_an_error_outside_of_their_blocks() -> None:
    async with nowhere() as outer, nowhere() as inner, nowhere(default=False) as hidden:
        assert current_client() is hidden
        with pytest.raises(errors.NoClient, match=r"2 clients are open in this process .*default=False"):
            await in_thread(current_client)
        await inner.close()
        assert await in_thread(current_client) is outer


async def test_what_is_found_elsewhere_is_used_in_its_own_loop(server: Served) -> None:
    """Both ways of submitting, and all that a handle does, from another thread's loop."""
    async with Client(server.url, server.token) as client:

        async def elsewhere() -> tuple[str, str, int]:
            handle = await double.submit(4)
            [many] = await client.submit_many([double.bind(5)], wait=True)
            await handle.cancel()
            with pytest.raises(errors.TaskCancelled):
                await handle.result(20)
            with pytest.raises(errors.WaitTimeout):
                await many.result(0)
            return handle.id, many.id, (await client.list()).total

        one, other, total = await in_thread(lambda: asyncio.run(elsewhere()))

        assert total == 2
        assert {task.id async for task in client.list()} == {one, other}


async def test_threads_submit_blocking_through_the_client_of_the_loop(server: Served) -> None:
    async with Client(server.url, server.token) as client:

        def view() -> str:
            handle = double.submit_sync(3)
            configured = double.with_options(double.defaults).submit_sync(4)
            assert configured.cancel().status == "cancelled"
            assert handle.status() == "pending"
            handle.cancel()
            with pytest.raises(errors.TaskCancelled):
                handle.result(20)
            return handle.id

        task_id = await in_thread(view)

        assert (await client.get(task_id)).status == "cancelled"


async def test_a_blocking_submit_in_the_loop_of_its_client_is_an_error_not_a_deadlock() -> None:
    async with nowhere():
        with pytest.raises(errors.WouldBlock, match=r"use `await task.submit"):
            double.submit_sync(3)


async def test_a_blocking_client_is_found_by_both_ways_of_submitting(server: Served) -> None:
    def block() -> SyncClient:
        client = SyncClient(server.url, server.token).open()
        assert double.submit_sync(1).handle.client is client.client
        with SyncClient(server.url, server.token) as inner:
            assert current_client() is inner.client
        return client

    client = await in_thread(block)
    handle = await double.submit(2)

    assert (await handle.get()).payload == {"n": 2}
    await in_thread(client.close)


async def awaited_in_a_loop_of_its_own(client: Client, work: Coroutine[Any, Any, None]) -> None:
    await client.opening().run(work)


@pytest.mark.parametrize(
    "wait",
    [
        lambda client, work: client.opening().block(work),
        lambda client, work: asyncio.run(awaited_in_a_loop_of_its_own(client, work)),
    ],
    ids=["thread", "loop"],
)
async def test_who_waits_in_another_thread_is_told_when_the_loop_of_its_client_ends(
    wait: Callable[[Client, Coroutine[Any, Any, None]], None],
) -> None:
    """In a loop of its own it was cancelled, though nobody had asked for that."""
    begun = threading.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    def loop() -> "Future[None]":
        async def main() -> "Future[None]":
            waiting = pool.submit(wait, await nowhere().open(), forever())
            await asyncio.get_running_loop().run_in_executor(None, begun.wait)
            return waiting

        return asyncio.run(main())

    with ThreadPoolExecutor() as pool:
        waiting = await in_thread(loop)
        with pytest.raises(errors.ConnectionLost, match="event loop ended"):
            await in_thread(waiting.result)


async def test_a_client_whose_loop_ends_takes_nothing_more_while_its_own_tasks_end() -> None:
    """Who let go of a task that it had followed elsewhere had the loop log that no task could be begun."""
    are_open: list[bool] = []

    async def end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            are_open.append(client.is_open)

    client = await nowhere().open()
    opening = client.opening()
    opening.spawn(end())
    await asyncio.sleep(0)

    opening._main.cancel()
    await asyncio.wait({opening._main})

    assert are_open == [False]


async def test_a_background_task_that_fails_ends_the_client_and_is_raised_when_it_is_closed() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with nowhere() as client:
            opening = client.opening()
            opening.spawn(fail())
            await asyncio.wait({opening._main})
            with pytest.raises(errors.NoClient):
                await client.ping()
    assert caught.group_contains(ZeroDivisionError)


def test_a_forked_process_opens_the_client_for_itself(treadle_server: Any) -> None:
    """Real processes: what gunicorn does when the application was loaded, and used, before it forks."""
    script = Path(__file__).with_name("forking.py")

    done = subprocess.run(
        [sys.executable, str(script), treadle_server.url, treadle_server.token],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout.split()) == (0, ["refused", "child", "parent"]), done.stderr


async def test_the_workers_own_client_is_found_by_its_tasks_alone(server: Served, working: Any) -> None:
    async with working(double):
        with pytest.raises(errors.NoClient, match="no client is open"):
            current_client()


async def test_a_generator_that_is_left_in_another_context_closes_its_client() -> None:
    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[Client]:
        async with nowhere() as client:
            yield client

    manager = lifespan()
    client = await asyncio.create_task(manager.__aenter__())
    assert current_client() is client
    await asyncio.create_task(manager.__aexit__(None, None, None))

    assert not client.is_open


@pytest.mark.parametrize("opens", [Client.open, Client.__aenter__], ids=["open", "async with"])
async def test_who_is_cancelled_while_it_opens_a_client_leaves_nothing_open_behind(opens: Any) -> None:
    """Its task stayed, to the end of the loop, which then told that it was destroyed."""
    client, before = nowhere(), asyncio.all_tasks()
    opening = asyncio.create_task(opens(client))
    await asyncio.sleep(0)
    opening.cancel()

    with pytest.raises(asyncio.CancelledError):
        await opening

    assert not client.is_open
    await asyncio.wait_for(asyncio.gather(*asyncio.all_tasks() - before), 30)
    async with client:
        assert client.is_open


def awaited_elsewhere(work: Coroutine[Any, Any, object]) -> None:
    """Go on with a coroutine as Trio would: what runs it is no event loop of asyncio's."""
    with contextlib.closing(work):
        work.send(None)


def test_a_coroutine_of_another_library_than_asyncio_is_told_what_to_use(treadle_server: Any) -> None:
    client = Client(treadle_server.url, treadle_server.token)
    with pytest.raises(errors.NoClient, match=r"no asyncio event loop is running.*under Trio use a SyncClient"):
        awaited_elsewhere(client.open())
    assert not client.is_open

    with SyncClient(treadle_server.url, treadle_server.token) as blocking:
        for work in (double.submit(1), blocking.client.list().page(), blocking.client.handle(new_task_id()).get()):
            with pytest.raises(errors.NoClient, match="no asyncio event loop is running"):
                awaited_elsewhere(work)
        assert double.submit_sync(2).status() == "pending"

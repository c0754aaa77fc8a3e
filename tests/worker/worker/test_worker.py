"""`Worker.run` in its process: signals do afterwards what they did before, and any thread may end it."""

import asyncio
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.waiting import until
from treadle import Worker, task
from treadle.errors import ConnectionFailed, DefinitionError, Unauthorized, WouldBlock
from treadle.loops import loop_factory
from treadle_server.testing import serve, serve_in_thread


@task
def nothing() -> None: ...


@pytest.fixture
def handlers() -> Iterator[dict[int, Any]]:
    """A program's own handlers."""

    def own(number: int, _: object) -> None: ...

    before = {number: signal.signal(number, own) for number in (signal.SIGINT, signal.SIGTERM)}
    yield dict.fromkeys(before, own)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("factory", [loop_factory(), None], ids=["uvloop", "asyncio"])
def test_after_run_signals_do_what_they_did_before(
    monkeypatch: pytest.MonkeyPatch, handlers: dict[int, Any], factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    monkeypatch.setattr("treadle.worker.worker.loop_factory", lambda: factory)
    worker = Worker([nothing], url="http://127.0.0.1:1", token="none")
    worker.stop()

    worker.run()

    assert {number: signal.getsignal(number) for number in handlers} == handlers


def test_a_worker_in_another_thread_is_stopped_from_this_one() -> None:
    with serve_in_thread() as served:
        worker = Worker([nothing], url=served.url, token=served.token)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            asyncio.run(until(lambda: worker.id is not None))
        finally:
            worker.stop()
            thread.join()


def test_a_worker_whose_task_can_not_be_described_ends_with_what_is_wrong() -> None:
    """It is no fault of the connection: another one would change nothing."""

    @task
    def unclear(n: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with serve_in_thread() as served, pytest.raises(DefinitionError, match="Nowhere"):
        Worker([unclear], url=served.url, token=served.token).run()


def test_a_worker_that_would_block_a_loop_says_what_to_write() -> None:
    """As in a notebook: the loop's own error leaves open what to do."""

    async def cell() -> None:
        with pytest.raises(WouldBlock, match="run_async"):
            Worker([nothing], url="http://127.0.0.1:1", token="none").run()

    asyncio.run(cell())


def test_a_worker_that_is_awaited_by_another_library_than_asyncio_says_what_to_write() -> None:
    """As Trio goes on with it; asyncio's own error leaves open what to do."""
    work = Worker([nothing], url="http://127.0.0.1:1", token="none").run_async()

    with closing(work), pytest.raises(RuntimeError, match=r"under Trio .*run_sync\(worker\.run\)"):
        work.send(None)


def test_a_worker_that_is_sent_to_another_process_says_what_to_do() -> None:
    """As by `multiprocessing.Process(target=worker.run)` where processes are spawned: some lambda could not be."""
    worker = Worker([nothing], url="http://127.0.0.1:1", token="none")

    with pytest.raises(TypeError, match=r"^a worker belongs to the process .*: create one in each process$"):
        pickle.dumps(worker.run)


def test_a_worker_that_has_ended_runs_again_in_its_loop_and_in_another() -> None:
    """As in a notebook: it ended at once, without a word."""
    opened: list[str | None] = []

    async def once(worker: Worker) -> None:
        running = asyncio.create_task(worker.run_async())
        async with asyncio.timeout(30):
            await worker.ready.wait()
        opened.append(worker.id)
        worker.stop()
        await running

    async def twice(worker: Worker) -> None:
        await once(worker)
        await once(worker)

    with serve_in_thread() as served:
        worker = Worker([nothing], url=served.url, token=served.token)
        asyncio.run(twice(worker))
        asyncio.run(once(worker))

    assert len(set(opened)) == 3


def test_a_worker_that_runs_does_not_run_a_second_time_beside_it() -> None:
    """As by a cell that is run again: the first one could then be stopped no more."""

    async def beside() -> None:
        running = asyncio.create_task(worker.run_async())
        async with asyncio.timeout(30):
            await worker.ready.wait()
            with pytest.raises(RuntimeError, match="this worker is already running: create another"):
                await worker.run_async()
            worker.stop()
            await running

    with serve_in_thread() as served:
        worker = Worker([nothing], url=served.url, token=served.token)
        asyncio.run(beside())


@pytest.mark.parametrize(("token", "expected"), [("of-another-server", Unauthorized), (None, ConnectionFailed)])
async def test_who_waits_for_a_worker_to_be_ready_is_told_when_it_ends_before(
    token: str | None, expected: type[Exception]
) -> None:
    """They waited for ever, and the program with them."""
    async with serve() as served:
        url = served.url if token else "http://127.0.0.1:1"
        worker = Worker([nothing], url=url, token=token or "none")
        ready = worker.ready
        waiting = [asyncio.create_task(ready.wait()) for _ in range(2)]
        running = asyncio.create_task(worker.run_async())
        await asyncio.sleep(0)
        if token is None:
            worker.stop()
        await asyncio.wait({running})

        for one in waiting:
            with pytest.raises(expected):
                await asyncio.wait_for(one, 20)
        assert not ready.is_set()
        assert not worker.ready.is_set()
        assert isinstance(running.exception(), expected if token else type(None))

"""A worker's lifespan: it is undone when the worker ends, and keeps it neither from ending nor from being stopped."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from treadle import Worker, task
from treadle.errors import DefinitionError
from treadle.worker import lifespan as lifespans

pytestmark = pytest.mark.anyio


@task
def nothing() -> None: ...


def worker_of(lifespan: Any) -> Worker:
    """Return a worker whose server is not there."""
    return Worker([nothing], url="http://127.0.0.1:1", token="none", lifespan=lifespan)


async def test_a_worker_that_is_stopped_while_its_lifespan_begins_ends(caplog: pytest.LogCaptureFixture) -> None:
    """As one that waits for a database: only SIGKILL ended it."""
    begins, is_cleaned = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def waits() -> AsyncIterator[None]:
        try:
            begins.set()
            await asyncio.Event().wait()
            yield
        finally:
            is_cleaned.set()

    worker = worker_of(waits)
    running = asyncio.create_task(worker.run_async())
    await begins.wait()
    worker.stop()

    await asyncio.wait_for(running, 60)
    assert is_cleaned.is_set()
    assert "the lifespan was cancelled" in caplog.text


async def test_a_second_stop_gives_a_lifespan_seconds_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifespans, "LAST_WORK", 0.05)
    begun, ends, goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    told: list[str] = []

    @asynccontextmanager
    async def hangs() -> AsyncIterator[None]:
        begun.set()
        yield
        ends.set()
        await goes_on.wait()
        told.append("first")
        await asyncio.Event().wait()
        told.append("second")

    worker = worker_of(hangs)
    running = asyncio.create_task(worker.run_async())
    await begun.wait()
    worker.stop()
    await ends.wait()
    goes_on.set()
    await asyncio.sleep(0)
    assert not running.done()
    worker.stop()

    await asyncio.wait_for(running, 60)
    assert told == ["first"]


async def test_what_a_lifespan_raises_is_raised_by_the_worker() -> None:
    @asynccontextmanager
    async def late() -> AsyncIterator[None]:
        raise TimeoutError("the database")
        yield

    with pytest.raises(TimeoutError, match="the database"):
        await worker_of(late).run_async()


async def test_a_lifespan_that_is_none_says_what_to_write() -> None:
    async def generates() -> AsyncIterator[None]:
        yield

    @contextmanager
    def blocks() -> Any:
        yield

    for wrong in (generates, blocks, lambda: None):
        with pytest.raises(DefinitionError, match="put @asynccontextmanager"):
            await worker_of(wrong).run_async()


async def test_a_lifespan_that_was_called_already_says_what_to_write() -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield

    with pytest.raises(DefinitionError, match="pass the function itself"):
        worker_of(lifespan())


def test_a_lifespan_that_is_no_function_without_arguments_is_refused_where_it_is_written() -> None:
    @asynccontextmanager
    async def of_an_application(app: object) -> AsyncIterator[None]:
        yield

    for wrong, said in ((3, "not 3$"), (of_an_application, "takes arguments$")):
        with pytest.raises(DefinitionError, match=f"lifespan must be a function without arguments: .* {said}"):
            worker_of(wrong)

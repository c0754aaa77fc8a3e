"""What signals do in a process whose loop heeds them and in its copies, and tasks that begin where they are made."""

import asyncio
import os
import signal
import threading
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextvars import copy_context
from functools import partial
from typing import Any

import pytest

from tests.worker.conftest import working_at
from treadle import Client, task
from treadle.loops import ended_by, in_thread, loop_factory
from treadle_server.testing import Served


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT as a terminal's programs have it: those that a shell starts in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def copy_that_is_told(number: signal.Signals, handler: Callable[..., None] | None = None) -> int:
    """Return how a copy of this process ends that gets a signal, as of a `multiprocessing.Pool` that is terminated."""
    begins, begun = os.pipe()
    ends, over = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            if handler is not None:
                signal.signal(number, handler)
            os.close(over)
            os.write(begun, b".")
            os.read(ends, 1)
            os._exit(0)
        except KeyboardInterrupt:
            os._exit(130)
    os.read(begins, 1)
    os.kill(pid, number)
    for each in (begins, begun, ends, over):
        os.close(each)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.usefixtures("interrupts")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("make", [None, loop_factory()], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(("number", "how"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)], ids=str)
def test_a_copy_of_the_process_is_ended_by_its_first_signal(
    number: signal.Signals, how: int, make: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    """It heard nothing, so that a task with a `multiprocessing.Pool` waited for the end of its processes for ever.

    Of two SIGINT it heard the second.
    """
    ends = []

    async def work() -> int:
        with ended_by(lambda: ends.append("the original")):
            return await asyncio.to_thread(copy_that_is_told, number)

    with asyncio.Runner(loop_factory=make) as runner:
        told = runner.run(work())

    assert (told, ends) == (how, [])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@task(isolation="process")
async def is_copied_in_a_process() -> int:
    return copy_that_is_told(signal.SIGINT)


@pytest.mark.anyio
@pytest.mark.usefixtures("interrupts")
async def test_a_copy_of_a_tasks_process_is_ended_by_its_first_sigint(treadle_server: Served) -> None:
    place = treadle_server.url, treadle_server.token
    async with Client(*place) as client, working_at(*place, is_copied_in_a_process):
        assert await (await client.submit(is_copied_in_a_process.bind())).result(timeout=90) == 130


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("make", [None, loop_factory()], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_that_a_copy_of_the_process_handles_does_not_end_the_original(
    number: signal.Signals, make: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    """A worker stopped when a task ended a process that it had forked, and that cleans up when it is told to end."""
    ends = []

    async def work() -> int:
        with ended_by(lambda: ends.append("the original")):
            told = await asyncio.to_thread(copy_that_is_told, number, lambda *_: os._exit(7))
            await asyncio.to_thread(int)  # The loop has looked for what came meanwhile.
            return told

    with asyncio.Runner(loop_factory=make) as runner:
        told = runner.run(work())

    assert (told, ends) == (7, [])


@types.coroutine
def _continued(work: Coroutine[Any, Any, Any], waits: Any) -> Generator[Any, Any, Any]:
    while True:
        try:
            sent = yield waits
        except BaseException as error:  # noqa: BLE001 - whatever the loop throws into it
            go_on = partial(work.throw, error)
        else:
            go_on = partial(work.send, sent)
        try:
            waits = go_on()
        except StopIteration as done:
            return done.value


def at_once(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any) -> "asyncio.Task[Any]":
    """Begin a task on the spot, as `asyncio.eager_task_factory` does, which Python 3.11 has not."""
    waits, ended = None, None
    context = options.pop("context", None) or copy_context()
    try:
        waits = context.run(work.send, None)
    except StopIteration as done:
        ended = done

    async def rest() -> Any:
        return await _continued(work, waits) if ended is None else ended.value

    return asyncio.Task(rest(), loop=loop, context=context, **options)


@task
async def double(n: int) -> int:
    return 2 * n


@pytest.mark.anyio
async def test_tasks_that_begin_where_they_are_made_are_submitted_and_run(
    treadle_server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """A submit was waited for without end, and a worker kept a slot for each run that had ended on the spot."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", at_once))
    place = treadle_server.url, treadle_server.token
    async with asyncio.timeout(30), Client(*place) as client, working_at(*place, double):
        handles = await asyncio.gather(*(client.submit(double.bind(n)) for n in range(20)))
        results = [await handle.result() for handle in handles]

    assert results == [2 * n for n in range(20)]
    assert "did not end in time" not in caplog.text


async def test_what_was_begun_in_a_thread_is_seen_to_its_end_by_who_is_cancelled() -> None:
    begun, goes_on = threading.Event(), threading.Event()
    done: list[str] = []

    def work(what: str) -> None:
        begun.set()
        goes_on.wait()
        done.append(what)
        raise OSError(what)

    working = asyncio.create_task(in_thread(work, "all of it"))
    await asyncio.to_thread(begun.wait)

    working.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await working

    assert done == ["all of it"]

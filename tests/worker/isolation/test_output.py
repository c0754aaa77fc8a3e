"""What a task's code logs and prints goes to its task's log, and where it went before."""

import asyncio
import io
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest

from tests.worker import jobs
from treadle import Client, Context, Pause, Settings, TaskFailed, task
from treadle.isolation import output
from treadle.isolation.output import Doubled, Output, begin, captured
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio

Working = Callable[..., Any]
log = logging.getLogger("someone.elses")


@pytest.fixture(autouse=True)
def buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python keeps back what goes into a pipe, unless it is told otherwise."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@task(max_retries=0)
async def speaks(n: int) -> None:
    print("printed", n)
    log.warning("warned of %d", n)
    await asyncio.to_thread(print, "from a thread", n)
    logging.getLogger("treadle.worker").warning("of the worker's own")
    print("without an end", end="")


@task(max_retries=0)
def speaks_in_a_thread(n: int) -> None:
    print("printed", n)
    log.warning("warned of %d", n)
    print("without an end", end="")


async def lines_of(client: Client, handle: Any) -> list[tuple[str, str]]:
    return [(line.level, line.message) for line in await client.logs(handle.id)]


@pytest.mark.parametrize(
    ("function", "more"),
    [(speaks, [("info", "from a thread {}")]), (speaks_in_a_thread, []), (jobs.speaks_in_a_process, [])],
    ids=["async", "thread", "process"],
)
async def test_each_run_has_its_own_lines_in_their_order(
    client: Client,
    working: Working,
    function: Any,
    more: list[tuple[str, str]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with working(function):
        handles = [await function.submit(n) for n in range(3)]
        await asyncio.gather(*(one.result(timeout=60) for one in handles))
        found = [await lines_of(client, one) for one in handles]

    said = [("info", "printed {}"), ("warning", "warned of {}"), *more, ("info", "without an end")]
    assert found == [[(level, text.format(n)) for level, text in said] for n in range(3)]
    # The words of a `print` are written one by one: those of several threads may stand between each other, as ever.
    assert capfd.readouterr().out.count("printed") == 3
    assert not isinstance(sys.stdout, Doubled)
    assert output._lines not in logging.getLogger().handlers


async def test_it_is_off_by_a_setting(client: Client, working: Working) -> None:
    async with working(speaks, jobs.speaks_in_a_process, settings=Settings(capture_output=False)):
        handles = [await speaks.submit(1), await jobs.speaks_in_a_process.submit(1)]
        await asyncio.gather(*(one.result(timeout=60) for one in handles))
        assert [await lines_of(client, one) for one in handles] == [[], []]


@task(max_retries=0)
async def fails() -> None:
    raise LookupError("nothing there")


@pytest.mark.parametrize("function", [fails, jobs.dies_of_an_error], ids=["async", "process"])
async def test_a_run_that_fails_is_logged_with_its_traceback(
    client: Client, working: Working, function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(function):
        handle = await function.submit()
        with pytest.raises(TaskFailed):
            await handle.result(timeout=60)
        lines = await lines_of(client, handle)

    [record] = [one for one in caplog.records if one.name == "treadle.worker" and one.levelno == logging.ERROR]
    assert (record.task, record.run, record.job) == (handle.id, 0, function.full_name)  # type: ignore[attr-defined]
    assert record.exc_text is not None
    assert record.exc_text.startswith("Traceback (most recent call last)")
    assert record.exc_text.endswith("LookupError: nothing there")
    assert record.exc_text in caplog.text
    assert lines == []


@task(max_retries=0)
async def returns_no_json() -> Any:
    return object()


@task(max_retries=0)
async def pauses_with_no_json() -> None:
    raise Pause(checkpoint=object())


@pytest.mark.parametrize("function", [returns_no_json, pauses_with_no_json], ids=["result", "checkpoint"])
async def test_a_run_that_fails_because_what_it_leaves_can_not_be_kept_is_logged_with_the_reason(
    client: Client, working: Working, function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(function):
        handle = await function.submit()
        with pytest.raises(TaskFailed) as failed:
            await handle.result(timeout=60)

    [record] = [one for one in caplog.records if one.name == "treadle.worker" and one.levelno == logging.ERROR]
    error = (await handle.get()).error
    assert error is not None
    assert "which is not JSON" in error
    assert error in str(failed.value)
    assert record.getMessage() == f"task {handle.id}, run 0, of {function.full_name} failed: {error}"
    assert record.exc_text is None


@task(timeout=0.2, max_retries=0)
async def waits_too_long() -> None:
    await asyncio.Event().wait()


@task(timeout=0.2, max_retries=0)
def looks_too_long(ctx: Context) -> None:
    while not ctx.cancelled:
        threading.Event().wait(0.01)


@task(timeout=0.2, max_retries=0, isolation="process")
def sleeps_too_long() -> None:
    threading.Event().wait()


@task(isolation="process")
def begins() -> None:
    """Start a process, which is there for the next run too."""


@pytest.mark.parametrize(
    ("function", "how", "last"),
    [
        (waits_too_long, " and was stopped", "asyncio.exceptions.CancelledError"),
        (looks_too_long, "; its code can't be stopped, and goes on until it ends by itself", None),
        (sleeps_too_long, " and was stopped", None),
    ],
    ids=["async", "thread", "process"],
)
async def test_a_run_whose_time_is_over_is_logged_as_such(
    client: Client, working: Working, function: Any, how: str, last: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(function, begins):
        # The time counts from the start of the run: on a busy machine a new process takes longer than that.
        await (await begins.submit()).result(timeout=90)
        handle = await function.submit()
        with pytest.raises(TaskFailed, match="timeout"):
            await handle.result(timeout=60)

    [record] = [one for one in caplog.records if one.name == "treadle.worker" and one.levelno == logging.ERROR]
    assert record.getMessage() == (
        f"task {handle.id}, run 0, of {function.full_name} failed: the run took longer than its timeout of 0.2 s{how}"
    )
    assert (record.exc_text or "").splitlines()[-1:] == ([last] if last else [])


def test_what_is_written_in_pieces_is_sent_by_lines() -> None:
    sent: list[tuple[str, str]] = []
    said = Output(("t", 0), lambda message, level: sent.append((level, message)))

    for text in ("a", "b\nc", "\n", "\n  \n", "d\ne"):
        said.print(text)
    said.end()
    said.end()

    assert sent == [("info", one) for one in ("ab", "c", "d", "e")]


def test_without_other_handlers_what_matters_still_goes_to_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler on the root logger silences the one of last resort."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    with captured():
        log.info("of no matter")
        log.warning("of some matter")
        logging.getLogger().addHandler(logging.NullHandler())
        log.warning("written elsewhere")

    assert capsys.readouterr().err == "of some matter\n"


def test_a_run_is_heard_though_an_earlier_one_has_configured_logging_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `django.setup()` gives the root logger handlers, no line of any later run came to its task's log."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    sent: list[str] = []

    def run() -> None:
        begin(Output(("a task", 0), lambda line, _: sent.append(line)))
        log.warning("heard")

    with captured():
        logging.getLogger().handlers[:] = [logging.NullHandler()]
        copy_context().run(run)
        copy_context().run(run)

    assert sent == ["heard", "heard"]


def test_two_workers_of_a_process_take_it_once_and_the_last_gives_it_back() -> None:
    stdout, handlers = sys.stdout, len(logging.getLogger().handlers)
    with captured():
        with captured(), captured(wanted=False):
            assert len(logging.getLogger().handlers) == handlers + 1
            assert isinstance(sys.stdout, Doubled)
            assert sys.stdout._stream is stdout
        assert isinstance(sys.stdout, Doubled)
        assert sys.stdout.isatty() == stdout.isatty()
    assert sys.stdout is stdout


def test_a_thread_that_has_not_the_runs_context_says_nothing_to_it() -> None:
    sent: list[str] = []
    output.current.set(Output(("t", 0), lambda message, _: sent.append(message)))
    try:
        with captured():
            thread = threading.Thread(target=lambda: print("elsewhere"))
            thread.start()
            thread.join()
            print("here")
    finally:
        output.current.set(None)

    assert sent == ["here"]


@task(max_retries=0)
def closes_what_it_prints_to() -> None:
    sys.stdout.close()
    sys.stderr.close()


@task(max_retries=0, isolation="process")
def closes_what_it_prints_to_in_a_process() -> None:
    sys.stdout.close()
    sys.stderr.close()


async def test_a_run_that_closes_standard_output_closes_it_for_nobody(
    client: Client, working: Working, capfd: pytest.CaptureFixture[str]
) -> None:
    """It ended the worker, whose log was written there."""
    async with working(
        closes_what_it_prints_to, closes_what_it_prints_to_in_a_process, speaks_in_a_thread, jobs.speaks_in_a_process
    ):
        for closing in (closes_what_it_prints_to, closes_what_it_prints_to_in_a_process):
            await (await client.submit(closing.bind())).result(timeout=30)
        for speaking in (speaks_in_a_thread, jobs.speaks_in_a_process):
            await (await client.submit(speaking.bind(1))).result(timeout=30)
        print("the worker goes on", file=sys.stderr)

    said = capfd.readouterr()
    assert said.out.count("printed 1") == 2
    assert "the worker goes on" in said.err


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_what_is_printed_where_the_process_was_begun_without_it_is_lost_alone(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Python prints to None without a word; here it raised, and failed the run."""
    monkeypatch.setattr(sys, name, None)

    with captured():
        print("to nobody", file=getattr(sys, name), flush=True)
        getattr(sys, name).close()
        print("to nobody", file=getattr(sys, name), flush=True)


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_what_is_printed_where_nothing_can_be_written_fails_no_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """The disk of the worker's log was full, or nobody read it: each run that printed failed, until none was left."""
    sent: list[str] = []
    with io.TextIOWrapper(io.FileIO("/dev/full", "w"), write_through=True) as full:
        monkeypatch.setattr(sys, name, full)
        with captured():
            begin(Output(("t", 0), lambda message, _: sent.append(message)))
            try:
                for line in ("one", "two"):
                    print(line, file=getattr(sys, name), flush=True)
            finally:
                output.current.set(None)

    assert sent == (["one", "two"] if name == "stdout" else [])
    assert [one.getMessage() for one in caplog.records if one.name == "treadle.worker"] == [
        "what tasks print can't be written (No space left on device): they run without it"
    ]


@pytest.mark.parametrize("function", [jobs.speaks_in_a_thread, jobs.speaks_in_a_process], ids=["thread", "process"])
async def test_a_worker_writes_each_line_that_is_printed_into_a_pipe(
    client: Client, server: Served, function: Any
) -> None:
    """As into a container's log: Python kept back up to 8 KB, and what a process had printed was lost with it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment |= {"TREADLE_URL": server.url, "TREADLE_TOKEN": server.token or ""}
    command = [sys.executable, "-m", "treadle", "worker", "tests.worker.jobs"]
    worker = await asyncio.create_subprocess_exec(*command, env=environment, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    try:
        await (await client.submit(function.bind(7))).result(timeout=60)
        told = [await asyncio.wait_for(worker.stdout.readline(), 30) for _ in range(2)]
        assert told[1] == b"printed 7\n", told
    finally:
        worker.kill()
        await worker.wait()

"""Processes that code runs in: they end when they are to, and none is left behind by who wanted it and went."""

import asyncio
import importlib
import os
import subprocess
import sys
from asyncio.subprocess import PIPE
from errno import EMFILE
from pathlib import Path
from typing import Any
from zipapp import create_archive

import pytest

from tests.children import children_named
from tests.worker import jobs, oddities
from treadle import Client, Options, Task, TaskCancelled, TaskFailed, Worker, task
from treadle.errors import DefinitionError
from treadle.isolation import processes
from treadle.isolation.processes import Child, ChildDied, Children
from treadle.loops import loop_factory
from treadle.wire.status import Reason
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


def _processes() -> set[int]:
    return children_named("treadle.isolation.child")


async def test_a_process_that_starts_while_the_worker_ends_is_ended() -> None:
    before = _processes()
    children = Children()
    taking = asyncio.create_task(children.take())
    await asyncio.sleep(0)
    await children.close()
    with pytest.raises(ChildDied, match="before the task's process had started"):
        await taking
    assert _processes() == before


@pytest.mark.parametrize(
    ("does", "how"),
    [("SIG_IGN", "an unknown exit code (code in the worker ignores SIGCHLD)"), ("SIG_DFL", "signal SIGKILL")],
)
def test_the_end_of_a_process_is_noticed_though_code_has_set_what_sigchld_does(does: str, how: str) -> None:
    """Under uvloop nobody heard of it: the run, its slot and the worker's own end waited for ever."""
    command = [sys.executable, Path(__file__).with_name("deaf_loop.py"), does]
    told = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)

    assert (told.stdout, told.returncode) == (f"the task's process ended with {how} before the task did\nFalse\n", 0), (
        told.stderr
    )


async def test_a_process_whose_start_is_given_up_is_ended(monkeypatch: pytest.MonkeyPatch, until: Any) -> None:
    before = _processes()
    is_started = asyncio.Event()

    async def open_connection(**_: object) -> None:
        is_started.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    starting = asyncio.create_task(Child.start())
    await is_started.wait()

    async def is_there() -> bool:
        return len(_processes() - before) == 1

    await until(is_there)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert _processes() == before


async def test_an_idle_process_that_was_killed_is_given_no_run() -> None:
    """A kernel short of memory kills idle ones too: the next run failed, though its code had not begun."""
    before, children = _processes(), Children()
    idle = await children.take()
    children.give_back(idle)
    idle.kill()
    await idle._process.wait()

    taken = await children.take()

    assert taken is not idle
    await children.close()
    assert _processes() == before


@pytest.mark.parametrize("factory", [None, loop_factory()], ids=["asyncio", "uvloop"])
def test_an_answer_to_a_process_that_was_ended_meanwhile_is_dropped(factory: Any) -> None:
    """On uvloop it raised, and was logged as a bug with a traceback: what asked was killed as its lease was over."""

    async def answer() -> None:
        child = await Child.start()
        await child.close()

        child.send({"answered": 1, "ok": None})

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(answer())


async def test_a_process_that_is_ended_twice_at_once_closes_nothing_that_was_opened_meanwhile() -> None:
    """As by its run and by its worker: the number of its pipe was closed again, whosever it was by then."""
    child = await Child.start()
    await child.close()
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(10)]

    await child.close()

    for one in opened:
        os.close(one)


async def test_a_process_past_its_timeout_is_killed(client: Client, working: Any, tmp_path: Any) -> None:
    """T5."""
    started = tmp_path / "pid"

    async with working(jobs.never_ends):
        with pytest.raises(TaskFailed, match="timeout"):
            await (await jobs.never_ends.submit(started)).result(timeout=20)

    assert not jobs.lives(int(started.read_text()))


async def test_an_idle_process_does_what_is_to_be_done_at_its_exit(
    client: Client, working: Any, tmp_path: Path
) -> None:
    """It was killed, and what its modules had not sent by then was lost: spans, buffered lines of a log."""
    async with working(jobs.writes_at_exit):
        await (await jobs.writes_at_exit.submit(tmp_path / "left")).result(timeout=20)

    assert (tmp_path / "left").read_text() == "at the exit"


async def test_an_idle_process_that_does_not_exit_is_killed(
    client: Client, working: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "LEAVING", 0.1)

    async with working(jobs.never_exits):
        pid = await (await jobs.never_exits.submit()).result(timeout=20)

    assert not jobs.lives(pid)


async def test_what_a_run_has_left_behind_says_nothing_of_the_next_one_in_its_process(
    client: Client, working: Any, until: Any
) -> None:
    async with working(jobs.leaves_a_thread, jobs.finds_a_thread, concurrency=1):
        await (await jobs.leaves_a_thread.submit()).result(timeout=20)
        handle = await jobs.finds_a_thread.submit()

        async def is_paused() -> bool:
            return await handle.status() == "paused"

        await until(is_paused)

    found = await handle.get()
    assert found.checkpoint == {"its": "own"}
    assert (found.progress, found.usage) == (None, None)
    assert await client.logs(handle.id) == []
    assert await handle.artifacts() == []
    detail = (await handle.runs())[0].error or ""
    assert detail.count("has ended") == 3, detail


async def test_a_cancelled_process_is_killed_at_once(client: Client, working: Any, tmp_path: Any, until: Any) -> None:
    """T5."""
    started = tmp_path / "pid"

    async with working(jobs.endless, concurrency=1):
        handle = await jobs.endless.submit(started)

        async def has_begun() -> bool:
            return started.exists() and bool(started.read_text())

        await until(has_begun)
        await handle.cancel()
        with pytest.raises(TaskCancelled):
            await handle.result(timeout=30)

        async def is_dead() -> bool:
            return not jobs.lives(int(started.read_text()))

        await until(is_dead)


async def test_a_process_that_dies_fails_its_task_and_the_worker_goes_on(client: Client, working: Any) -> None:
    """T5, T7."""
    async with working(jobs.dies, jobs.pid, jobs.picky):
        with pytest.raises(TaskFailed, match="exit code 3"):
            await (await jobs.dies.submit()).result(timeout=20)
        with pytest.raises(TaskFailed, match="nothing suits me") as failure:
            await (await jobs.picky.submit()).result(timeout=20)
        assert failure.value.task.reason == "malformed-payload"
        assert isinstance(await (await jobs.pid.submit()).result(timeout=20), int)


async def test_checkpoint_progress_log_and_usage_work_from_a_process(client: Client, working: Any) -> None:
    """E3, T6: the next run gets the checkpoint, and goes on with the usage."""
    async with working(jobs.steps):
        handle = await jobs.steps.submit(4, options=Options(budget=100))
        assert await handle.result(timeout=30) == [2, 4]

    item = await handle.get()
    logs = await client.call("logs", {"id": handle.id})
    assert (item.checkpoint, item.usage, item.run_id) == (4, 6.0, 1)
    assert [line["message"] for line in logs["items"]] == ["did 0", "did 1", "did 2", "did 3"]


async def test_a_sync_function_with_a_target_runs_in_a_process(client: Client, working: Any) -> None:
    """G5."""
    import os

    async with working(jobs.where):
        handle = await jobs.where.submit(options=Options(target="robot"))
        assert await handle.result(timeout=20) != os.getpid()


@pytest.mark.parametrize("lacking", ["a pipe", "a process"])
async def test_a_run_for_which_the_system_has_no_process_is_put_back(
    client: Client, working: Any, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """It failed for good, as a defect of the worker."""

    def refuse(*_: object, **__: object) -> Any:
        monkeypatch.undo()
        raise OSError(EMFILE, "Too many open files")

    if lacking == "a pipe":
        monkeypatch.setattr(processes, "LeaseKiller", refuse)
    else:
        monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    async with working(jobs.pid):
        handle = await jobs.pid.submit()

        await handle.result(timeout=30)
        first, _ = await handle.runs()
    assert first.reason is Reason.INTERMITTENT_TASK
    assert "Too many open files): raise its limits" in (first.error or "")


PROGRAM = """
import asyncio
from treadle import Client, Worker, task

@task(isolation="process", max_retries=0)
def add(n: int) -> int:
    return n + 1

async def main():
    worker = Worker([add])
    running = asyncio.create_task(worker.run_async())
    async with Client():
        print(await (await add.submit(1)).result(timeout=60))
    worker.stop()
    await running

if __name__ == "__main__":
    asyncio.run(main())
"""


async def run_program(server: Served, *words: str, said: str | None = None) -> tuple[str, str]:
    """Run it in a Python of its own, and return what it printed and what it complained of."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=PIPE, stdout=PIPE, stderr=PIPE,
        env={**os.environ, "TREADLE_URL": server.url, "TREADLE_TOKEN": server.token or ""},
    )  # fmt: skip
    printed, complained = await process.communicate(said.encode() if said else None)
    return printed.decode().strip(), complained.decode()


@pytest.mark.parametrize("form", ["script", "directory", "archive"])
async def test_a_process_finds_the_tasks_of_a_program_in_whatever_form_it_is_started(
    server: Served, tmp_path: Path, form: str
) -> None:
    """In a directory or an archive the program's module has a name, which is that of the child's own."""
    program = tmp_path / "program"
    program.mkdir()
    (program / "__main__.py").write_text(PROGRAM)
    if form == "script":
        program /= "__main__.py"
    elif form == "archive":
        create_archive(program, program := tmp_path / "program.pyz")

    assert await run_program(server, str(program)) == ("2", "")


async def test_a_plain_function_with_a_target_is_told_why_it_has_no_resources(client: Client, working: Any) -> None:
    """It was told to use isolation='thread', which it had."""
    async with working(jobs.resources):
        alone = await client.submit(jobs.resources.bind())
        of_target = await client.submit(jobs.resources.bind(), options=Options(target="printer"))

        assert await alone.result(timeout=60) is None
        with pytest.raises(
            TaskFailed, match=r"in one \(isolation='process', or a plain function with a target\): create"
        ):
            await of_target.result(timeout=60)


async def test_a_process_for_the_tasks_of_what_was_typed_in_is_refused(server: Served) -> None:
    _, complained = await run_program(server, "-", said=PROGRAM)

    # A cell's function that had a target was told of an isolation that it had not.
    assert "in a process (by isolation='process', or since it has a target) but was typed in: move it" in complained


UNGUARDED = """
from treadle import Worker, task

@task(name="unguarded", isolation="process", max_retries=0)
def add(n: int) -> int:
    return n + 1

Worker([add]).run()
"""


async def test_a_program_that_runs_its_worker_when_it_is_imported_is_told_so(
    server: Served, client: Client, tmp_path: Path
) -> None:
    """The child process imports it, and was a worker of its own instead of running the task, which never ended."""

    @task(name="unguarded", isolation="process", max_retries=0)
    def add(n: int) -> int: ...

    (tmp_path / "program.py").write_text(UNGUARDED)
    worker = await asyncio.create_subprocess_exec(
        sys.executable, str(tmp_path / "program.py"), stderr=PIPE,
        env={**os.environ, "TREADLE_URL": server.url, "TREADLE_TOKEN": server.token or ""},
    )  # fmt: skip
    try:
        ended = await (await client.submit(add.bind(1))).wait(timeout=60)
    finally:
        worker.terminate()
        await worker.communicate()

    assert (ended.status, ended.reason) == ("failed", "internal-error")
    assert 'write `if __name__ == "__main__":` before Worker' in (ended.error or "")


ENDS_ITS_CHILD = """
import sys
from treadle import task

@task(name="never", isolation="process", max_retries=0)
def never() -> None: ...

if "treadle.isolation.child" in sys.orig_argv:
    sys.exit(3)
"""


async def test_a_module_that_ends_its_child_when_it_is_imported_fails_the_run_with_its_traceback(
    client: Client, working: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ends_its_child.py").write_text(ENDS_ITS_CHILD)
    module = importlib.import_module("ends_its_child")

    async with working(module.never):
        ended = await (await client.submit(module.never.bind())).wait(timeout=30)

    [run] = await client.runs(ended.id)
    assert (ended.status, ended.error) == ("failed", "SystemExit: 3")
    assert "ends_its_child.py" in (run.traceback or "")


class Holder:
    @task(name="in_a_class", isolation="process", max_retries=3)
    @staticmethod
    def within() -> None: ...

    @task(name="in_a_class_too", max_retries=3)
    @staticmethod
    def thread() -> None: ...


imported: Task[..., Any] = task(isolation="process")(oddities.deep)


def test_a_task_that_no_child_could_find_is_refused_when_the_worker_is_made() -> None:
    """It failed each of its runs with a KeyError."""
    with pytest.raises(DefinitionError, match=r"Holder\.within runs in a process .* in a class"):
        Worker([Holder.within])


async def test_a_task_made_of_another_modules_function_is_found_where_it_was_made(client: Client, working: Any) -> None:
    async with working(imported):
        assert await (await client.submit(imported.bind(2))).result(timeout=30) == [[]]


async def test_a_thread_that_a_target_makes_a_process_says_why_no_child_finds_it(client: Client, working: Any) -> None:
    """It was a defect of the worker, or a KeyError."""

    @task(name="in_a_function", max_retries=3)
    def inner() -> None: ...

    async with working(inner, Holder.thread):
        for one, place in ((inner, "another function"), (Holder.thread, "a class")):
            bound = one.with_options(Options(target=f"of {place}")).bind()
            ended = await (await client.submit(bound)).wait(timeout=30)

            assert ended.reason == Reason.INTERNAL_ERROR
            assert "(by isolation='process', or since it has a target)" in (ended.error or "")
            assert f"defined in {place}" in (ended.error or "")

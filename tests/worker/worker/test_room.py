"""A machine that has fewer threads and processes than the worker has concurrency: its tasks wait for each other."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker import jobs
from treadle import Client, TaskCancelled, task
from treadle.isolation import processes
from treadle.wire.status import Reason

pytestmark = pytest.mark.anyio


class Gate:
    """Threads of tasks that wait in it, of which the system has one at once."""

    def __init__(self) -> None:
        self.opens = threading.Event()
        self.threads: list[threading.Thread] = []
        self.refused = 0


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    start = threading.Thread.start

    def starts(thread: threading.Thread) -> None:
        if thread.name.startswith("treadle-waits"):
            if any(other.is_alive() for other in gate.threads):
                gate.refused += 1
                raise RuntimeError("can't start new thread")
            gate.threads.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)
    yield gate
    gate.opens.set()


async def test_tasks_for_which_there_is_no_thread_wait_for_one_and_spend_no_requeue(
    client: Client, working: Any, until: Any, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """They were put back, came here again, and failed when their requeues were spent."""

    @task(max_requeues=0, max_retries=0)
    def waits(n: int) -> int:
        gate.opens.wait(30)
        return n

    async with working(waits, concurrency=5):
        handles = [await waits.submit(n) for n in range(5)]

        async def are_refused() -> bool:
            return gate.refused == 4

        await until(are_refused)
        gate.opens.set()

        assert [await handle.result(timeout=30) for handle in handles] == list(range(5))
    assert [len(await handle.runs()) for handle in handles] == [1] * 5
    [said] = [record.getMessage() for record in caplog.records if "could not start a thread" in record.getMessage()]
    assert said.endswith("lower its concurrency; 1 running, and the other claimed tasks wait until one of them ends")


async def test_what_waits_for_a_thread_can_be_cancelled_and_its_timeout_counts_from_when_it_has_one(
    client: Client, working: Any, until: Any, gate: Gate
) -> None:
    @task(max_requeues=0, max_retries=0)
    def waits(n: int) -> int:
        gate.opens.wait(30)
        return n

    @task(max_requeues=0, max_retries=0, timeout=0.2)
    def waits_too(n: int) -> int:
        return n

    async with working(waits, waits_too, concurrency=3) as worker:
        first = await waits.submit(1)

        async def is_begun() -> bool:
            return len(gate.threads) == 1

        await until(is_begun)
        cancelled, last = await waits.submit(2), await waits_too.submit(3)

        async def are_refused() -> bool:
            return gate.refused == 2

        await until(are_refused)
        refused_at = asyncio.get_running_loop().time()
        await cancelled.cancel()
        with pytest.raises(TaskCancelled):
            await cancelled.result(timeout=30)

        async def its_place_is_free() -> bool:
            used = (await client.worker(worker.id)).used
            return used == 2 and asyncio.get_running_loop().time() > refused_at + 0.3

        await until(its_place_is_free)
        gate.opens.set()

        assert (await first.result(timeout=30), await last.result(timeout=30)) == (1, 3)
        assert len(gate.threads) == 2


async def test_idle_processes_make_room_for_what_the_system_has_none_for(
    client: Client, working: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose idle processes took all that it might have began no thread again."""

    @task(max_requeues=0, max_retries=0)
    def waits() -> int:
        return threading.get_native_id()

    start = threading.Thread.start
    ended: list[bool] = []
    end_idle = processes.Children.end_idle

    async def ends(children: processes.Children) -> bool:
        ended.append(await end_idle(children))
        return ended[-1]

    def starts(thread: threading.Thread) -> None:
        if thread.name == "treadle-waits" and True not in ended:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(processes.Children, "end_idle", ends)
    monkeypatch.setattr(threading.Thread, "start", starts)
    async with working(waits, jobs.pid, concurrency=2):
        idle = await (await jobs.pid.submit()).result(timeout=30)
        handle = await waits.submit()

        await handle.result(timeout=30)
    assert len(await handle.runs()) == 1
    assert not jobs.lives(idle)


async def test_a_thread_that_has_told_its_end_and_is_not_gone_yet_is_waited_for(
    client: Client, working: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next task of a worker at its limit was put back, for there was nothing that it might wait for."""

    @task(max_requeues=0, max_retries=0)
    def waits(n: int) -> int:
        return n

    start = threading.Thread.start
    refused: list[str] = []

    def starts(thread: threading.Thread) -> None:
        if thread.name == "treadle-waits":
            refused.append(thread.name)
            if 1 < len(refused) < 5:
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)
    async with working(waits, concurrency=1):
        for n in range(2):
            assert await (await waits.submit(n)).result(timeout=30) == n
    assert len(refused) == 5


NO_THREADS = """
import _thread, pathlib

start, told = _thread.start_new_thread, pathlib.Path({told!r})

def starts(function, *given):
    if function.__name__ == "_read" and not told.exists():
        told.touch()
        raise RuntimeError("can't start new thread")
    return start(function, *given)

_thread.start_new_thread = starts
"""


async def test_a_process_without_room_for_its_own_threads_is_told_like_one_that_could_not_start(
    client: Client, working: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It ended by exit code 1 before the task did, which told nobody what to raise."""
    (tmp_path / "sitecustomize.py").write_text(NO_THREADS.format(told=str(tmp_path / "told")), "utf-8")
    environment = processes._environment

    def with_no_threads() -> dict[str, str]:
        ours = environment()
        return ours | {"PYTHONPATH": f"{tmp_path}:{ours['PYTHONPATH']}"}

    monkeypatch.setattr(processes, "_environment", with_no_threads)
    async with working(jobs.pid):
        handle = await jobs.pid.submit()

        await handle.result(timeout=30)
        first, _ = await handle.runs()
    assert first.reason is Reason.INTERMITTENT_TASK
    assert "a process for the task (can't start new thread): raise its limits" in (first.error or "")

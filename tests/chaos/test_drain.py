"""A worker process that is told to stop: what runs may end, what can't is handed back (L10, E13)."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import drained
from tests.chaos.processes import ServerProcess, WorkerProcess, running_server
from tests.waiting import SECONDS
from treadle import Client, Options
from treadle.client.handle import TaskHandle

pytestmark = [pytest.mark.anyio, pytest.mark.one_database]


class MarkedWorker:
    """A worker process of the tasks in `drained`, and what they mark."""

    def __init__(self, client: Client, server: ServerProcess, worker: WorkerProcess, marks: Path) -> None:
        self.client = client
        self.server = server
        self.worker = worker
        self.marks = marks

    async def until(self, *names: str) -> None:
        async with asyncio.timeout(40):
            while not all((self.marks / name).exists() for name in names):
                await asyncio.sleep(0.02)

    def go(self) -> None:
        (self.marks / "go").touch()

    async def ended(self, limit: float = SECONDS) -> int:
        async with asyncio.timeout(limit):
            return await self.worker.ended()


@asynccontextmanager
async def at_work(
    tmp_path: Path, database_url: str, *options: str, concurrency: int = 20
) -> AsyncIterator[MarkedWorker]:
    marks = tmp_path / "marks"
    _make(marks)
    with running_server(tmp_path, database_url) as server:
        worker = WorkerProcess(
            server, "tests.chaos.drained", *options, concurrency=concurrency, TREADLE_TEST_MARKS=str(marks)
        )
        async with Client(server.url, server.token) as client:
            worker.start()
            try:
                yield MarkedWorker(client, server, worker, marks)
            finally:
                await asyncio.to_thread(worker.stop)


def _make(directory: Path) -> None:
    directory.mkdir()


async def _ends(handle: TaskHandle[Any]) -> list[tuple[str, str | None]]:
    return [(run.status, run.reason) for run in await handle.runs()]


async def test_a_worker_that_is_asked_to_drain_lets_its_run_end_and_its_process_too_l10(
    tmp_path: Path, database_url: str
) -> None:
    async with at_work(tmp_path, database_url, concurrency=1) as marked:
        running = await marked.client.submit(drained.ends_in_time.bind())
        await marked.until("in-time")
        [worker] = (await marked.client.workers()).items

        assert (await marked.client.drain_worker(worker.id)).state == "draining"
        marked.go()

        assert await marked.ended() == 0
        assert await _ends(running) == [("completed", None)]
        assert (await marked.client.workers()).total == 0


async def test_a_terminated_worker_lets_runs_end_and_returns_what_it_had_not_begun_l10_e13(
    tmp_path: Path, database_url: str
) -> None:
    async with at_work(tmp_path, database_url, "--prefetch", "3", concurrency=1) as marked:
        running = await marked.client.submit(drained.ends_in_time.bind())
        await marked.until("in-time")
        prefetched = await marked.client.submit(drained.waits_its_turn.bind())
        await _until_status(prefetched, "claimed")

        marked.worker.signal(signal.SIGTERM)
        await _until_status(prefetched, "pending")
        later = await marked.client.submit(drained.waits_its_turn.bind())
        marked.go()

        assert await running.result(timeout=20) == "done"
        assert await marked.ended(20) == 0
        assert await _ends(prefetched) == [("returned", "returned")]
        assert (await prefetched.get()).requeue_count == 0
        assert await _ends(later) == []
        assert (await marked.client.workers()).items == []


async def test_what_does_not_end_within_the_grace_is_stopped_and_handed_back_l10_c6(
    tmp_path: Path, database_url: str
) -> None:
    """Coroutines are cancelled, processes killed, and threads, which nothing stops, are told and left behind."""
    async with at_work(tmp_path, database_url, "--drain-grace", "0.5") as marked:
        tasks = [drained.would_go_on, drained.sees_it, drained.ignores_it, drained.in_a_process]
        handles = await marked.client.submit_many([task.bind() for task in tasks])
        await marked.until("coroutine", "thread", "stubborn", "process")

        marked.worker.signal(signal.SIGTERM)

        assert await marked.ended(30) == 0
        assert [await _ends(handle) for handle in handles] == [[("exception", "worker-shutdown")]] * 4
        items = [await handle.get() for handle in handles]
        assert {item.status for item in items} == {"pending"}
        assert {item.retry_count for item in items} == {0}
        assert items[1].checkpoint == "so far"
        assert (marked.marks / "cleaned-up").exists()


async def test_a_worker_whose_terminal_is_closed_lets_runs_end_l10_c6(tmp_path: Path) -> None:
    """Its shell sends the same signal once more. It died as if it were killed, and its runs with it."""
    async with at_work(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}", "--drain-grace", "600") as marked:
        running = await marked.client.submit(drained.ends_in_time.bind())
        await marked.until("in-time")

        marked.worker.signal(signal.SIGHUP)
        await _until_draining(marked.client)
        marked.worker.signal(signal.SIGHUP)
        marked.go()

        assert await running.result(timeout=20) == "done"
        assert await marked.ended(20) == 0


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.crossed)], ids=lambda number: number.name
)
async def test_a_second_signal_ends_the_grace_l10(tmp_path: Path, database_url: str, number: signal.Signals) -> None:
    """Also while a thread runs that nothing stops."""
    async with at_work(tmp_path, database_url, "--drain-grace", "600") as marked:
        tasks = [drained.would_go_on, drained.ignores_it]
        handles = await marked.client.submit_many([task.bind() for task in tasks])
        await marked.until("coroutine", "stubborn")

        marked.worker.signal(number)
        await _until_draining(marked.client)
        marked.worker.signal(number)

        # The grace would last longer than anything is waited for here.
        assert await marked.ended() == 0
        assert [await _ends(handle) for handle in handles] == [[("exception", "worker-shutdown")]] * 2


@pytest.mark.parametrize(
    "at_work_on", [pytest.param("nothing", marks=pytest.mark.crossed), "a task that ends in its grace"]
)
async def test_a_worker_ends_within_its_grace_though_its_server_stands_still_l10_n2(
    tmp_path: Path, at_work_on: str
) -> None:
    """A request that nobody answers takes no more than is left of the grace; the database has no part in it."""
    async with at_work(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}", "--drain-grace", "1") as marked:
        running = await marked.client.submit(drained.ends_in_time.bind()) if at_work_on != "nothing" else None
        if running is None:
            await _until_logged(marked.worker, " is open for ")
        else:
            await _until_status(running, "running")
        marked.server.signal(signal.SIGSTOP)
        try:
            marked.worker.signal(signal.SIGTERM)
            marked.go()

            assert await marked.ended(60) == 0
        finally:
            marked.server.signal(signal.SIGCONT)
        # A second is the grace; the other one is the least that an answer is waited for, on a busy machine too.
        assert "did not answer within 2 s: the worker ends without waiting for it" in marked.worker.log.read_text()


@pytest.mark.crossed
async def test_a_coroutine_with_a_target_that_ignores_the_end_is_not_handed_back_before_its_process_is_gone_g5(
    tmp_path: Path, database_url: str
) -> None:
    """Its lease is what frees the target: nobody could say when the code stopped."""
    from tests.chaos import guarded

    trace = tmp_path / "trace"
    with running_server(tmp_path, database_url, TREADLE_SWEEPER_INTERVAL_SECONDS="0.3") as server:
        worker = WorkerProcess(
            server, "tests.chaos.guarded", "--drain-grace", "0.1",
            TREADLE_TEST_TRACE=str(trace), TREADLE_TEST_NAME="a",
        )  # fmt: skip
        async with Client(server.url, server.token) as client:
            handle = await client.submit(
                guarded.ignores.bind(n=0), options=Options(target="robot", lease_seconds=30, max_requeues=1)
            )
            worker.start()
            try:
                await _until_status(handle, "running")
                worker.signal(signal.SIGTERM)
                async with asyncio.timeout(40):
                    code = await worker.ended()
            finally:
                await asyncio.to_thread(worker.stop)
            target = await client.http().request("GET", "/v1/rooms/@global/targets/robot")

    assert code == 75
    assert target["held"]


async def _until_status(handle: TaskHandle[Any], status: str) -> None:
    async with asyncio.timeout(30):
        while await handle.status() != status:
            await asyncio.sleep(0.02)


async def _until_logged(worker: WorkerProcess, words: str) -> None:
    async with asyncio.timeout(30):
        while words not in worker.log.read_text():
            await asyncio.sleep(0.02)


async def _until_draining(client: Client) -> None:
    async with asyncio.timeout(30):
        while [worker.state for worker in (await client.workers()).items] != ["draining"]:
            await asyncio.sleep(0.02)

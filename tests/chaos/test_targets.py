"""A target between two workers, of which one loses the server, or is frozen, in the middle of its task (G5)."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import guarded
from tests.chaos.processes import ServerProcess, WorkerProcess, running_server
from tests.chaos.wires import Wire, wire_to
from treadle import Client, Options
from treadle.client.handle import TaskHandle
from treadle.worker.lease import STANDSTILL

pytestmark = [pytest.mark.anyio, pytest.mark.one_database, pytest.mark.slow]

SWEEP = "0.3"
FAST = {"TREADLE_SWEEPER_INTERVAL_SECONDS": SWEEP, "TREADLE_SESSION_PING_SECONDS": "1"}
LATE = 0.5
"""Seconds in which a process that wakes has stopped its code, on a machine that is busy with other tests."""


@dataclass(frozen=True)
class Span:
    """One worker's run of one task, from its first mark to its last."""

    worker: str
    n: int
    first: float
    last: float


class Stage:
    """A server, worker A behind a wire, worker B beside it, and what their tasks wrote."""

    def __init__(self, server: ServerProcess, client: Client, wire: Wire, path: Path) -> None:
        self.client = client
        self.wire = wire
        self.path = path
        self.a = self._worker(server, "a", TREADLE_URL=wire.url)
        self.b = self._worker(server, "b")

    def _worker(self, server: ServerProcess, name: str, **environment: str) -> WorkerProcess:
        environment |= {"TREADLE_TEST_TRACE": str(self.path), "TREADLE_TEST_NAME": name}
        return WorkerProcess(server, "tests.chaos.guarded", name=name, **environment)

    def marks(self) -> list[tuple[float, str, int]]:
        """Every mark, in the order in which they were written."""
        if not self.path.exists():
            return []
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [(float(at), worker, int(n)) for at, worker, n in lines]

    def spans(self) -> list[Span]:
        """The runs, by their first marks."""
        found: dict[tuple[str, int], list[float]] = {}
        for at, worker, n in self.marks():
            found.setdefault((worker, n), []).append(at)
        return sorted((Span(*key, at[0], at[-1]) for key, at in found.items()), key=lambda span: span.first)

    async def until_marked(self, worker: str | None = None, n: int | None = None, *, after: float = 0.0) -> None:
        """Wait for a mark: of this worker, of this task, later than `after`."""
        async with asyncio.timeout(40):
            while not any(worker in {None, who} and n in {None, what} and at > after for at, who, what in self.marks()):
                await asyncio.sleep(0.02)

    def open_gate(self, *numbers: int) -> None:
        """Let tasks end."""
        for n in numbers:
            Path(f"{self.path}.{n}").touch()

    async def submit(self, task: Any, n: int) -> TaskHandle[Any]:
        return await self.client.submit(task.bind(n=n), options=Options(target="robot"))


@asynccontextmanager
async def staged(tmp_path: Path, database_url: str) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        server = stack.enter_context(running_server(tmp_path, database_url, **FAST))
        client = await stack.enter_async_context(Client(server.url, server.token))
        wire = await stack.enter_async_context(wire_to(server.url))
        stage = Stage(server, client, wire, tmp_path / "trace")
        # The wire must carry their good-byes meanwhile.
        stack.push_async_callback(asyncio.to_thread, stage.a.stop)
        stack.push_async_callback(asyncio.to_thread, stage.b.stop)
        yield stage


async def _a_runs_and_b_waits(stage: Stage, task: Any) -> tuple[TaskHandle[Any], TaskHandle[Any]]:
    stage.a.start()
    first = await stage.submit(task, 0)
    await stage.until_marked("a", 0)
    second = await stage.submit(task, 1)
    stage.b.start()
    return first, second


def _overlaps(spans: list[Span]) -> list[tuple[Span, Span]]:
    return [(one, next_) for one, next_ in pairwise(spans) if next_.first <= one.last]


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(guarded.cooperates, id="coroutine", marks=pytest.mark.crossed),
        pytest.param(guarded.blocks, id="process"),
    ],
)
async def test_g5_a_worker_cut_off_stops_its_targets_code_before_another_begins(
    tmp_path: Path, database_url: str, task: Any
) -> None:
    """No byte passes and no connection ends: A stops by its own clock; when it is back, its report changes nothing."""
    async with staged(tmp_path, database_url) as stage:
        first, second = await _a_runs_and_b_waits(stage, task)

        stage.wire.silence()
        await stage.until_marked("b")
        stage.open_gate(0, 1)
        assert [await handle.result(timeout=30) for handle in (first, second)] == ["b", "b"]
        stage.wire.heal()

        stage.b.signal(signal.SIGTERM)
        assert await stage.b.ended() == 0
        third = await stage.submit(task, 2)
        await stage.until_marked("a", 2)
        stage.open_gate(2)
        assert await third.result(timeout=30) == "a"
        runs = await first.runs()

    assert not _overlaps(stage.spans())
    assert [(run.status, run.reason) for run in runs] == [("exception", "claim-expired"), ("completed", None)]
    assert f"task {first.id}, run 0, is no longer ours" in stage.a.log.read_text()


async def test_g5_a_coroutine_that_ignores_its_cancellation_is_ended_with_its_worker(
    tmp_path: Path, database_url: str
) -> None:
    async with staged(tmp_path, database_url) as stage:
        first, second = await _a_runs_and_b_waits(stage, guarded.ignores)

        stage.wire.silence()
        assert await stage.a.ended() == 75
        await stage.until_marked("b")
        stage.open_gate(0, 1)
        assert [await handle.result(timeout=30) for handle in (first, second)] == ["b", "b"]

    assert not _overlaps(stage.spans())
    assert "is losing its target 'robot': the worker ends itself" in stage.a.log.read_text()


async def test_g5_a_frozen_worker_stops_its_code_when_it_wakes(tmp_path: Path, database_url: str) -> None:
    """Only while it was frozen may another's run have begun: its code makes no step after that."""
    async with staged(tmp_path, database_url) as stage:
        first, second = await _a_runs_and_b_waits(stage, guarded.cooperates)

        stage.a.signal(signal.SIGSTOP)
        await stage.until_marked("b")
        woken = time.monotonic()
        stage.a.signal(signal.SIGCONT)
        # B goes on well beyond the time in which A must have stopped.
        await stage.until_marked("b", after=woken + 2 * LATE)
        late = [at - woken for at, worker, _ in stage.marks() if worker == "a" and at > woken + LATE]
        stage.open_gate(0, 1, 2)
        assert await first.result(timeout=30) == "b"
        await second.result(timeout=30)
        stage.b.signal(signal.SIGTERM)
        await stage.b.ended()
        assert await (await stage.submit(guarded.cooperates, 2)).result(timeout=30) == "a"

    assert late == []


async def test_g5_a_process_with_a_target_ends_in_time_though_its_worker_is_frozen(
    tmp_path: Path, database_url: str
) -> None:
    """The child has a lease killer of its own: a worker that stands still can't kill it."""
    async with staged(tmp_path, database_url) as stage:
        first, second = await _a_runs_and_b_waits(stage, guarded.blocks)

        stage.a.signal(signal.SIGSTOP)
        await stage.until_marked("b")
        stage.a.signal(signal.SIGCONT)
        stage.open_gate(0, 1)
        assert await first.result(timeout=30) == "b"
        await second.result(timeout=30)

    assert not _overlaps(stage.spans())


async def test_a_process_ends_with_its_lease_though_its_worker_is_frozen_and_no_limit_is_exceeded(
    tmp_path: Path, database_url: str
) -> None:
    """Without a target it ran on, beside the run that took its place under the limit."""
    async with staged(tmp_path, database_url) as stage:
        stage.a.start()
        first = await stage.client.submit(guarded.alone.bind(n=0))
        await stage.until_marked("a", 0)
        second = await stage.client.submit(guarded.alone.bind(n=1))
        stage.b.start()

        stage.a.signal(signal.SIGSTOP)
        await stage.until_marked("b")
        stage.a.signal(signal.SIGCONT)
        stage.open_gate(0, 1)
        await first.result(timeout=30)
        await second.result(timeout=30)

    assert not _overlaps(stage.spans())


async def test_a_process_without_a_target_goes_on_after_its_lease_while_its_worker_does(
    tmp_path: Path, database_url: str
) -> None:
    """The worker is disconnected, and reports when it can."""
    async with staged(tmp_path, database_url) as stage:
        stage.a.start()
        handle = await stage.client.submit(guarded.alone.bind(n=0))
        await stage.until_marked("a", 0)

        stage.wire.silence()
        await stage.until_marked("a", 0, after=time.monotonic() + 9 + 2 * STANDSTILL)
        stage.wire.heal()
        stage.open_gate(0)
        assert await handle.result(timeout=30) == "a"


async def test_g5_a_cancelled_task_holds_its_target_until_its_code_has_stopped(
    tmp_path: Path, database_url: str
) -> None:
    """The hold lasts longer than the lease did, for the worker's heartbeats name it."""
    async with staged(tmp_path, database_url) as stage:
        first, second = await _a_runs_and_b_waits(stage, guarded.ignores)

        cancelled_at = time.monotonic()
        await first.cancel()
        await stage.until_marked("a", 0, after=cancelled_at + 4)
        assert (await second.get()).status == "pending"
        stage.open_gate(0)
        await stage.until_marked(n=1)
        stage.open_gate(1)
        await second.result(timeout=30)
        item = await first.get()

    assert not _overlaps(stage.spans())
    assert item.status == "cancelled"

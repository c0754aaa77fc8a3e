"""A server that dies while its workers work, and comes back."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.chaos import drained
from tests.chaos.processes import WorkerProcess, running_server
from treadle import Client, Options

pytestmark = pytest.mark.anyio

TASKS = 5
LEASE = 3.0


def _have(marks: Path, what: str) -> bool:
    return all((marks / f"{what}-{n}").exists() for n in range(TASKS))


async def _until(marks: Path, what: str) -> None:
    async with asyncio.timeout(40):
        while not _have(marks, what):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "ends", [pytest.param("while the server is away", marks=pytest.mark.crossed), "when it is back"]
)
async def test_a_worker_goes_on_without_its_server_and_reports_when_it_is_back_t8_e8(
    tmp_path: Path, database_url: str, ends: str
) -> None:
    """The server is killed, and away for longer than every lease; no task runs twice, none is lost (G4)."""
    marks = tmp_path / "marks"
    marks.mkdir()
    with running_server(tmp_path, database_url, TREADLE_SWEEPER_INTERVAL_SECONDS="0.3") as server:
        worker = WorkerProcess(server, "tests.chaos.drained", TREADLE_TEST_MARKS=str(marks))
        worker.start()
        try:
            async with Client(server.url, server.token) as client:
                options = Options(lease_seconds=LEASE)
                handles = await client.submit_many([drained.outlasts.bind(n) for n in range(TASKS)], options=options)
                await _until(marks, "runs")
                async with asyncio.timeout(20):
                    while {await handle.status() for handle in handles} != {"running"}:
                        await asyncio.sleep(0.02)

            server.kill()
            down = time.monotonic()
            if ends == "while the server is away":
                _touch(marks / "go")
                await _until(marks, "ends")
            await _pass(down + LEASE + 1)
            await asyncio.to_thread(server.start)
            _touch(marks / "go")

            async with Client(server.url, server.token) as client:
                again = [client.handle(handle.id) for handle in handles]
                assert [await handle.result(timeout=40) for handle in again] == ["run 0"] * TASKS
                runs = [[run.status for run in await handle.runs()] for handle in again]
        finally:
            await asyncio.to_thread(worker.stop)

    assert runs == [["completed"]] * TASKS
    assert [_read(marks / f"ends-{n}") for n in range(TASKS)] == ["0\n"] * TASKS


async def _pass(moment: float) -> None:
    """Let the leases end: they are what is waited for, and nothing tells of them while the server is away."""
    while time.monotonic() < moment:
        await asyncio.sleep(0.05)


def _touch(path: Path) -> None:
    path.touch()


def _read(path: Path) -> str:
    return path.read_text()

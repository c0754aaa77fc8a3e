"""Workers and servers that die in the middle of the work."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.processes import WorkerProcess, running_server, stopped_at_the_end
from tests.chaos.recorded import mark
from treadle import Client

pytestmark = pytest.mark.anyio

TASKS = 1_000


async def _completed(client: Client) -> int:
    return (await client.stats()).counts.get("completed", 0)


async def _until(client: Client, count: int) -> None:
    async with asyncio.timeout(120):
        while await _completed(client) < count:
            await asyncio.sleep(0.05)


def _marks(path: Path) -> Counter[int]:
    return Counter(int(line) for line in path.read_text().split())


async def test_g4_tasks_of_a_worker_killed_three_times_complete_once_each_t6(tmp_path, database_url) -> None:
    """Every task is executed at least once, and completed exactly once (G4); lost runs are requeued (T6)."""
    marks = tmp_path / "marks"
    with running_server(tmp_path, database_url, TREADLE_SWEEPER_INTERVAL_SECONDS="0.5") as server:
        worker = WorkerProcess(server, "tests.chaos.recorded", TREADLE_TEST_MARKS=str(marks))
        async with Client(url=server.url, token=server.token) as client:
            with stopped_at_the_end(worker):
                await client.submit_many([mark.bind(n=n) for n in range(TASKS)])
                for share in (0.2, 0.4, 0.6):
                    worker.start()
                    await _until(client, int(TASKS * share))
                    worker.kill()
                worker.start()
                await _until(client, TASKS)
            counts = (await client.stats()).counts
            runs = await _completed_runs(client)

    assert {status: n for status, n in counts.items() if n} == {"completed": TASKS}
    assert set(_marks(marks)) == set(range(TASKS))
    assert set(runs.values()) == {1}
    assert len(runs) == TASKS


async def _completed_runs(client: Client) -> Counter[str]:
    """Count the completed runs of every task, as the server kept them."""
    found: Counter[str] = Counter()
    offset = 0
    while items := (await client.list(limit=500, offset=offset)).items:
        offset += len(items)
        for item in items:
            # A task of one run has nothing else to tell; the others are asked for.
            if item.run_id == 0:
                found[item.id] += item.status == "completed"
            else:
                found[item.id] += sum(run.status == "completed" for run in await client.runs(item.id))
    return found

"""What `/metrics` says of tasks, at each of two servers, after workers and a server were killed."""

import asyncio
import math
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.chaos.mixed import mixed
from tests.chaos.processes import ServerProcess, WorkerProcess, stopped_at_the_end
from tests.clients import client_at
from treadle import Client

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

TASKS, CANCELLED = 200, 10
SETTINGS = {
    "TREADLE_SESSION_GRACE_SECONDS": "0.3",
    "TREADLE_SWEEPER_INTERVAL_SECONDS": "0.3",
    "TREADLE_WORKER_TIMEOUT_SECONDS": "3",
}
Counts = Counter[tuple[str, str]]


@pytest.fixture
def servers(tmp_path: Path, postgres_database: str) -> Iterator[list[ServerProcess]]:
    """Two servers on one database, as processes."""
    with ExitStack() as stack:
        found = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            found.append(ServerProcess(tmp_path / name, postgres_database, **SETTINGS))
            found[-1].start()
            stack.enter_context(stopped_at_the_end(found[-1]))
        yield found


async def scraped(server: ServerProcess) -> dict[str, list[Sample]]:
    """The samples that a server tells, by name."""
    async with client_at(server.url, server.headers) as client:
        answer = await client.get("/metrics")
    assert answer.status_code == 200, answer.text
    found = defaultdict(list)
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found[sample.name].append(sample)
    return found


def told(samples: list[Sample], label: str) -> Counts:
    """The samples that are not 0, by job and another label."""
    return +Counter({(one.labels["job"], one.labels[label]): int(one.value) for one in samples})


def runs_of(page: dict[str, list[Sample]]) -> int:
    """How many runs a server has measured since its start; fails unless its histogram is one."""
    name = "treadle_task_run_seconds"
    count, seconds = (sum(one.value for one in page[f"{name}_{of}"]) for of in ("count", "sum"))
    buckets = [(float(one.labels["le"]), one.value) for one in page[f"{name}_bucket"]] or [(math.inf, 0)]
    assert buckets == sorted(buckets)
    assert [n for _, n in buckets] == sorted(n for _, n in buckets)
    assert buckets[-1] == (math.inf, count)
    # A start and an end of one commit are no time apart, as a busy machine has them.
    assert 0 <= seconds <= 60 * count
    return int(count)


async def counted(url: str, query: str) -> Counts:
    connection = await asyncpg.connect(url)
    try:
        return Counter({(row[0], row[1]): row[2] for row in await connection.fetch(query)})
    finally:
        await connection.close()


STANDING = "SELECT job_name, status, count(*) FROM tasks GROUP BY 1, 2"
ENDED = f"SELECT * FROM ({STANDING}) AS found (job, status, n) WHERE status IN ('completed', 'failed', 'cancelled')"
RUNS = """
SELECT job, 'runs', count(*) FROM treadle_runs
 WHERE status IN ('completed', 'failed', 'exception') AND started_at IS NOT NULL GROUP BY 1
"""


async def until_ended(client: Client, count: int) -> None:
    """Wait until so many have ended by themselves."""
    async with asyncio.timeout(100):
        ended = 0
        while ended < count:
            counts = (await client.stats()).counts
            ended = counts.get("completed", 0) + counts.get("failed", 0)


@pytest.mark.crossed
async def test_counters_of_both_servers_are_the_databases_after_kills_g11_f5(
    servers: list[ServerProcess], postgres_database: str
) -> None:
    first, second = servers
    with ExitStack() as stack:
        reached = {"TREADLE_URL": f"{first.url},{second.url}"}
        workers = [
            WorkerProcess(first, "tests.chaos.mixed", concurrency=4, name=f"worker-{n}", **reached) for n in range(2)
        ]
        for worker in workers:
            worker.start()
            stack.enter_context(stopped_at_the_end(worker))
        async with Client(first.url, first.token) as client:
            handles = await client.submit_many([mixed.bind(n) for n in range(TASKS)])
            for handle in handles[-CANCELLED:]:
                await handle.cancel()
            await until_ended(client, TASKS // 5)
            workers[0].kill()
            second.kill()
            workers[0].start()
            await until_ended(client, 2 * TASKS // 5)
            await asyncio.to_thread(second.start)
            workers[1].signal(signal.SIGKILL)
            await until_ended(client, TASKS - CANCELLED)
            pages = [await scraped(server) for server in servers]
            standing, ended, runs = [await counted(postgres_database, query) for query in (STANDING, ENDED, RUNS)]
            await client.prune(older_than=0)
            left = await counted(postgres_database, STANDING)
            after = [await scraped(server) for server in servers]

    assert ended.total() == TASKS
    assert {status for _, status in ended} == {"completed", "failed", "cancelled"}
    for page in pages:
        assert told(page["treadle_tasks_total"], "outcome") == ended
        assert told(page["treadle_tasks"], "status") == standing
    # What a server had measured is gone with it: the others' counts are there, and none was counted twice.
    assert 0 < sum(map(runs_of, pages)) <= runs.total()
    assert left.total() < TASKS
    for page in after:
        assert told(page["treadle_tasks_total"], "outcome") == ended
        assert told(page["treadle_tasks"], "status") == left

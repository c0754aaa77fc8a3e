"""L2, from inside the tasks: `tests.bench.targets` in small, with real workers on the socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.bench.targets import Sizes, submit, visits
from tests.bench.visits import visit
from treadle import Client, Worker
from treadle_server.testing import Served, serve

SIZES = Sizes(targets=12, tasks=5, workers=4, concurrency=4, rounds=1)


@asynccontextmanager
async def _working(served: Served) -> AsyncIterator[None]:
    workers = [
        Worker([visit], concurrency=SIZES.concurrency, url=served.url, token=served.token, drain_grace=0)
        for _ in range(SIZES.workers)
    ]
    async with asyncio.TaskGroup() as group:
        for worker in workers:
            group.create_task(worker.run_async())
        try:
            yield
        finally:
            for worker in workers:
                worker.stop()


async def test_no_task_ever_meets_another_in_its_target_nor_overtakes_one_l2(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TREADLE_BENCH_ROOT", str(tmp_path))
    bounds = visits(SIZES, targeted=True)
    async with serve(database_url) as served, Client(served.url, served.token) as client:
        handles = await submit(client, bounds)
        async with _working(served):
            await client.resume_queue(visit.full_name)
            async with asyncio.timeout(90):
                items = await asyncio.gather(*(handle.wait() for handle in handles))

    assert len(items) == len(bounds)
    assert {(item.status, item.error) for item in items} == {("completed", None)}

"""Two servers and four workers on one PostgreSQL: each server is killed once, the database restarted once."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from tests.chaos.cluster import Cluster, Observer, asked, cluster, every_task, overlapping, submit, waited
from tests.chaos.processes import ServerProcess
from tests.clients import client_at
from treadle_server.store.past_runs import past_runs
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tasks

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


async def completed_runs(url: str) -> Counter[str]:
    """How many runs of each task ended as completed, read from the database itself."""
    store = SqlStore(url)
    try:
        async with store.read() as connection:
            runs = past_runs()
            ended = sa.select(tasks.c.id).join_from(runs, tasks, runs.c.task_seq == tasks.c.seq)
            return Counter(
                str(one) for one in (await connection.execute(ended.where(runs.c.status == "completed"))).scalars()
            )
    finally:
        await store.close()


async def ended_by_metrics(server: ServerProcess) -> Counter[str]:
    """How many tasks ended how, as the server's metrics tell: its own counts began anew when it was killed."""
    async with client_at(server.url, server.headers) as client:
        page = (await client.get("/metrics")).text
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == "treadle_tasks_total":
                found[sample.labels["outcome"]] += int(sample.value)
    return +found


async def kill_and_restart(running: Cluster, count: int) -> None:
    """Kill each server once, and restart the database once, while the tasks are done."""
    for i, server in enumerate(running.servers):
        await running.until_ended(count * (1 + i) // 5)
        server.kill()
        await asyncio.sleep(0)
        await asyncio.to_thread(server.start)
    await running.until_ended(count * 3 // 5)
    await asyncio.to_thread(running.postgres.stop, "fast")
    await asyncio.to_thread(running.postgres.start)


async def survive(directory: Path, count: int, seconds: float) -> None:
    """G11, G4, G5, G7: do so many tasks of so many seconds each through all of it, and look what has become of them."""
    began = time.monotonic()
    with cluster(directory) as running:
        await waited(lambda: all("is open for" in (directory / "a" / f"worker-{i}.log").read_text() for i in range(4)))
        observers = [Observer(running) for _ in running.servers]
        following = [asyncio.create_task(one.follow(i)) for i, one in enumerate(observers)]
        await waited(lambda: all(one.since for one in observers))
        ready = time.monotonic()
        disaster = asyncio.create_task(kill_and_restart(running, count))
        names = await submit(running, count, seconds)
        await running.until_ended(count)
        await disaster
        ended = time.monotonic()
        async with asyncio.timeout(60):
            while (await asked(running, "GET", "/v1/stats"))["counts"].get("completed") != count:
                await asyncio.sleep(0.05)
        await waited(lambda: all(one.completed >= set(names) for one in observers))
        for one in following:
            one.cancel()
        # Their connections are closed before the servers end.
        await asyncio.wait(following)

        found = Counter(task["status"] for task in await every_task(running))
        assert found == {"completed": count}
        assert [await ended_by_metrics(server) for server in running.servers] == [found, found]
        assert await completed_runs(running.postgres.url) == Counter(names), "each has completed once"
        ran = Counter(int(line[1]) for line in running.lines("end"))
        assert ran == Counter(range(count)), "no worker died: no code ran twice"
        assert overlapping(running) == []
        assert len([line for line in running.lines("end") if line[2] != "-"]) == count // 10
        print(
            f"{count} tasks in {ended - ready:.1f} s, {time.monotonic() - began:.1f} s in all; observers: "
            + "; ".join(f"{one.told['events']} events, {one.told['reload']} reloads" for one in observers)
        )


@pytest.mark.slow
async def test_two_servers_that_die_and_a_database_that_restarts_lose_and_double_nothing_g11_t8(tmp_path: Path) -> None:
    await survive(tmp_path, 400, 0.2)


@pytest.mark.timeout(900)
@pytest.mark.soak
async def test_twenty_thousand_tasks_survive_it_g11_t8(tmp_path: Path) -> None:
    await survive(tmp_path, 20_000, 0.1)

"""What a job and a worker show beside their rows: what is measured, what runs, and when a heartbeat is due."""

import asyncio
from pathlib import Path

import pytest

from tests.api.rooms import Room
from tests.clients import client_at
from tests.live.sockets import connected
from treadle.wire.jobs import JobItem
from treadle.wire.workers import BUSY_BEAT_SECONDS, IDLE_BEAT_SECONDS, WorkerItem
from treadle_server.engine.commands import ExpireLeases
from treadle_server.store.read import workers as read_workers
from treadle_server.testing import Served, serve


async def test_a_job_tells_what_is_measured_of_its_queue(lab: Room):
    for n in range(3):
        await lab.submit(n)
    task = await lab.start()
    await lab.client.post(f"/v1/tasks/{task['id']}/runs/0/completed")

    one = JobItem.model_validate((await lab.client.get(f"/v1/rooms/lab/jobs/{lab.job}")).json())
    [same] = (await lab.client.get("/v1/rooms/lab/jobs")).json()["items"]

    assert one.stats is not None
    assert one.history is not None
    assert (sum(one.history.submitted), sum(one.history.completed)) == (3, 1)
    assert (one.stats.wait.n, one.stats.run.n, one.stats.starts_by_room) == (1, 1, None)
    assert one.stats.starts_per_second is not None
    assert one.stats.since <= one.created_at
    again = JobItem.model_validate(same)
    assert again.stats is not None
    assert (again.stats.run, again.stats.wait) == (one.stats.run, one.stats.wait)


async def test_a_worker_tells_what_it_runs_since_when_and_how_often_it_is_expected_to_beat(
    lab: Room, monkeypatch: pytest.MonkeyPatch
):
    """TUI.md 5: a strip of expected beats can be drawn."""
    path = f"/v1/workers/{lab.worker_id}"
    idle = WorkerItem.model_validate((await lab.client.get(path)).json())
    for n in range(3):
        await lab.submit(n)
    started = await lab.start()
    claimed = (await lab.claim())["task"]

    busy = WorkerItem.model_validate((await lab.client.get(path)).json())
    monkeypatch.setattr(read_workers, "MOST_RUNNING", 1)
    [listed] = (await lab.client.get("/v1/workers")).json()["items"]

    assert (idle.beat_seconds, idle.running, idle.running_count) == (IDLE_BEAT_SECONDS, [], 0)
    assert (busy.beat_seconds, busy.running_count, busy.lost_after_seconds) == (BUSY_BEAT_SECONDS, 2, 60)
    told = [(run.task_id, run.job_name, run.model_dump(mode="json")["since"]) for run in busy.running]
    assert told == [(started["id"], lab.job, started["started_at"]), (claimed["id"], lab.job, claimed["claimed_at"])]
    assert ([run["task_id"] for run in listed["running"]], listed["running_count"], listed["used"]) == (
        [started["id"]],
        2,
        2,
    )


async def test_a_server_that_loses_its_workers_sooner_wants_them_to_beat_more_often(database_url: str, tmp_path: Path):
    """Section 3: an idle worker beats every 15 s or a third of the server's worker timeout, whichever is less."""
    async with (
        serve(database_url, data_dir=tmp_path, worker_timeout_seconds=10) as served,
        client_at(served.url, served.headers) as client,
        connected(served) as socket,
    ):
        told = (await client.post("/v1/workers")).json()
        path = f"/v1/workers/{told['id']}"
        beaten, shown = (await client.patch(path)).json(), (await client.get(path)).json()
        opened = (await socket.call("open"))["worker"]

    for one in (told, beaten, shown, opened):
        assert one["beat_seconds"] == one["idle_beat_seconds"] == pytest.approx(10 / 3)
        assert one["lost_after_seconds"] == 10


async def test_who_lost_its_run_is_shown_with_the_beat_of_one_that_runs_until_it_beats(served: Served, lab: Room):
    """Section 3: what a worker is expected by never grows because its runs were lost."""
    await lab.submit(1, lease_seconds=0.05)
    claimed = (await lab.claim())["task"]
    path = f"/v1/workers/{lab.worker_id}"
    async with asyncio.timeout(20):
        while (await lab.get(claimed["id"]))["status"] == "claimed":
            await served.engine.run(ExpireLeases())

    lost = (await lab.client.get(path)).json()
    await lab.client.patch(path)
    well = (await lab.client.get(path)).json()

    assert (lost["running"], lost["beat_seconds"]) == ([], BUSY_BEAT_SECONDS)
    assert (well["running"], well["beat_seconds"]) == ([], IDLE_BEAT_SECONDS)

"""What a job and a worker show beside their rows: what is measured, what runs, and when a heartbeat is due."""

import pytest

from tests.api.rooms import Room
from treadle.lease import BUSY_BEAT, IDLE_BEAT
from treadle.wire.jobs import JobItem
from treadle.wire.workers import BUSY_BEAT_SECONDS, IDLE_BEAT_SECONDS, WorkerItem
from treadle_server.store.read import workers as read_workers


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


def test_the_sdk_beats_as_often_as_the_server_says():
    assert (BUSY_BEAT, IDLE_BEAT) == (BUSY_BEAT_SECONDS, IDLE_BEAT_SECONDS)

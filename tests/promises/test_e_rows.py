"""Rows E2 to E5, E7, E9, E11 and E12, as the server keeps them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.promises.problems import refused
from tests.promises.rig import Rig, worked, worker_of
from tests.promises.words import JOB
from treadle_server.domain.retry import CAP, backoff


async def test_a_worker_gets_only_the_jobs_it_listens_to_by_priority_e2(rig: Rig):
    worker = await worker_of(rig)
    await rig.root.register_job("other")
    await rig.root.submit("lab:tasks:other", priority=100)
    low, high = await rig.root.submit(priority=-1), await rig.root.submit(priority=1)

    first = await worker.begin()
    await worker.complete(first)

    assert (first["id"], (await worker.begin())["id"]) == (high["id"], low["id"])
    assert await worker.claim() == []


async def test_a_checkpoint_is_what_the_next_run_gets_and_counts_as_a_heartbeat_e3(rig: Rig):
    worker, run = await worked(rig, max_retries=1, retry_base=0)
    rig.advance(40)

    await worker.checkpoint(run, {"at": 5})

    assert (await rig.root.get(run))["taken_until"] > run["taken_until"]
    await worker.fail(run)
    again = await worker.take()
    assert (again["run_id"], again["checkpoint"]) == (1, {"at": 5})


async def test_a_lost_runs_checkpoint_is_refused_and_not_stored_e3(rig: Rig):
    worker = await worker_of(rig)
    other = await rig.root.register_worker(JOB)
    await rig.root.submit(max_requeues=1)
    lost = await worker.begin()
    await worker.checkpoint(lost, {"at": 1})
    rig.advance(61)
    await worker.heartbeat()
    await other.heartbeat()
    await rig.sweep()
    new = await other.begin()

    with refused("stale-run", 409):
        await worker.checkpoint(lost, {"at": 99})

    assert (await rig.root.get(new))["checkpoint"] == {"at": 1}


async def test_a_heartbeat_never_shortens_a_lease_and_an_increment_of_zero_is_strict_e4(rig: Rig):
    worker = await worker_of(rig, concurrency=3)
    for increment in (5, 100, 0):
        await rig.root.submit(lease_seconds=60, heartbeat_increment=increment)
    runs = await worker.claim(3)
    rig.advance(10)

    answer = await worker.heartbeat(*runs)

    left = {one["task_id"]: one["seconds_left"] for one in answer["taken_until"]}
    assert [left[run["id"]] for run in runs] == [50, 100, 50]


async def test_the_sum_of_weights_stays_within_the_concurrency_e5(rig: Rig):
    worker = await worker_of(rig, concurrency=4)
    for weight in (2, 2, 1):
        await rig.root.submit(weight=weight)

    runs = await worker.claim(4)

    assert [run["weight"] for run in runs] == [2, 2]
    assert await worker.claim(4) == []


async def test_what_is_heavier_than_the_worker_is_left_for_another_e5(rig: Rig):
    small = await worker_of(rig, concurrency=2)
    big = await rig.root.register_worker(JOB, concurrency=10)
    heavy, light = await rig.root.submit(weight=9), await rig.root.submit(weight=1)

    assert [run["id"] for run in await small.claim(2)] == [light["id"]]
    assert [run["id"] for run in await big.claim(10)] == [heavy["id"]]


async def test_a_heavy_task_at_the_head_is_waited_for_and_never_overtaken_e5(rig: Rig):
    worker = await worker_of(rig, concurrency=3)
    await rig.root.submit(weight=2)
    [first] = await worker.claim(3)
    heavy = await rig.root.submit(weight=3)
    for _ in range(3):
        await rig.root.submit(weight=1)
        assert await worker.claim(3) == []

    await worker.start(first)
    await worker.complete(first)

    assert [run["id"] for run in await worker.claim(3)] == [heavy["id"]]


@given(
    st.integers(0, 5000),
    st.floats(0, 1e9),
    st.floats(1, 100),
    st.floats(0, 10),
    st.floats(0, 1, exclude_max=True),
)
def test_a_backoff_stays_within_its_bounds_e7(attempt, base, multiplier, randomization, draw) -> None:
    delay = backoff(attempt, base=base, multiplier=multiplier, randomization=randomization, draw=draw)
    least = backoff(attempt, base=base, multiplier=multiplier, randomization=0, draw=0)

    assert least <= delay <= CAP
    assert delay.total_seconds() <= least.total_seconds() * (1 + randomization) + 1e-5
    assert (delay.total_seconds() == 0) or base > 0


async def test_a_retrys_delay_follows_the_tasks_own_numbers_and_changes_no_other_e7(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit(max_retries=3, retry_base=3, retry_multiplier=4, retry_randomization=0.5)
    other = await rig.root.submit(max_retries=3, delay=86_400)
    for attempt in range(3):
        now = await worker.fail(await worker.begin())
        least = 3 * 4**attempt
        for delay in (least - 0.001, least * 0.5 + 0.002):
            before = (await rig.root.get(task))["status"]
            rig.advance(delay)
            await rig.promote()
            assert before == "scheduled"
            await worker.heartbeat()
        assert (now["retry_count"], (await rig.root.get(task))["status"]) == (attempt + 1, "pending")

    assert (await worker.fail(await worker.begin()))["status"] == "failed"
    untouched = await rig.root.get(other)
    assert (untouched["version"], untouched["scheduled_at"]) == (other["version"], other["scheduled_at"])


@pytest.mark.parametrize("call", [None, 0, 2])
async def test_call_beats_job_beats_setting_and_an_explicit_zero_counts_e7(rig: Rig, call: int | None):
    await rig.root.register_job(max_retries=1, max_requeues=1)
    options = {} if call is None else {"max_retries": call, "max_requeues": call}

    task = await rig.root.submit(**options)

    assert (task["max_retries"], task["max_requeues"]) == ((1, 1) if call is None else (call, call))


async def test_what_is_not_running_is_edited_and_what_runs_is_a_409_e9(rig: Rig):
    worker = await worker_of(rig)
    first, task = await rig.root.submit(), await rig.root.submit()
    changes = {"priority": 5, "payload": {"n": 2}, "tags": {"k": "v"}, "weight": 1, "target": "cam"}

    edited = await rig.root.edit(task, **changes)

    assert {name: edited[name] for name in changes} == changes
    assert await rig.root.positions() == {task["id"]: 1, first["id"]: 2}
    run = await worker.begin()
    assert run["id"] == task["id"]
    with refused("invalid-task-transition", 409):
        await rig.root.edit(run, priority=1)


async def test_a_checkpoint_outranks_a_changed_payload_unless_told_otherwise_e9(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit(payload={"n": 1})
    run = await worker.begin()
    await rig.root.pause(task)
    await worker.pause_report(run, checkpoint={"at": 1})
    await rig.root.resume(task)

    kept = await rig.root.edit(task, payload={"n": 2})
    dropped = await rig.root.edit(task, payload={"n": 3}, checkpoint=None)

    assert (kept["payload"], kept["checkpoint"]) == ({"n": 2}, {"at": 1})
    assert (dropped["payload"], dropped["checkpoint"]) == ({"n": 3}, None)
    assert (await worker.take())["checkpoint"] is None


async def test_an_undo_by_version_restores_the_place_and_acts_on_nothing_else_e9(rig: Rig):
    await worker_of(rig)
    first, second = await rig.root.submit(), await rig.root.submit()
    gone = await rig.root.cancel(first, if_version=first["version"])
    with refused("task-conflict", 409):
        await rig.root.rerun(first, if_version=first["version"])

    await rig.root.rerun(first, if_version=gone["version"])

    assert await rig.root.positions() == {first["id"]: 1, second["id"]: 2}


async def test_every_run_is_kept_with_times_worker_reason_and_traceback_successes_too_e12(rig: Rig):
    worker = await worker_of(rig)
    trace = "Traceback (most recent call last):\n" + "  line\n" * 500
    task = await rig.root.submit(max_retries=1, retry_base=0)
    await worker.fail(await worker.begin(), "boom", traceback=trace, usage=2)
    rig.advance(1)
    await worker.complete(await worker.begin(), 1)

    failed, completed = await rig.root.runs(task)

    assert (failed["status"], failed["reason"], failed["error"], failed["traceback"], failed["usage"]) == (
        "failed",
        "error",
        "boom",
        trace,
        2,
    )
    assert (completed["status"], completed["run_id"], completed["traceback"]) == ("completed", 1, None)
    for run in (failed, completed):
        assert run["worker_id"] == worker.id
        assert run["claimed_at"] <= run["started_at"] <= run["ended_at"]
    assert failed["ended_at"] < completed["claimed_at"]


async def test_requests_that_meet_in_one_batch_fail_alone_e11(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit()
    run = await worker.begin()

    answers = await asyncio.gather(
        rig.root.submit(),
        rig.root.submit("lab:tasks:none"),
        worker.complete(run, 1),
        rig.root.resume(task),
        return_exceptions=True,
    )

    assert [isinstance(answer, Exception) for answer in answers] == [False, True, False, True]
    assert (await rig.root.get(task))["status"] == "completed"

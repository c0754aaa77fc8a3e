"""Rows L1, L3 and L5: leases, what renews them, and what becomes of a run whose lease has ended."""

import asyncio

import pytest

from tests.promises.problems import refused
from tests.promises.rig import Rig, worked, worker_of
from tests.promises.words import JOB


async def test_a_claim_tells_its_owner_and_its_end_l1(rig: Rig):
    worker = await worker_of(rig)
    await rig.root.submit(lease_seconds=30)

    run = await worker.take()

    assert (run["worker_id"], run["run_id"], run["seconds_left"]) == (worker.id, 0, 30)
    assert (await rig.root.get(run))["taken_until"] == run["taken_until"]


async def test_a_heartbeat_renews_the_lease_and_answers_what_is_committed_l1(rig: Rig):
    worker, run = await worked(rig, lease_seconds=30)
    rig.advance(20)

    answer = await worker.heartbeat(run)

    [renewed] = answer["taken_until"]
    assert (renewed["task_id"], renewed["run_id"], renewed["seconds_left"]) == (run["id"], 0, 30)
    assert (await rig.root.get(run))["taken_until"] == renewed["taken_until"] > run["taken_until"]


async def test_a_heartbeat_without_runs_renews_none_and_one_for_every_run_renews_all_l1(rig: Rig):
    worker, run = await worked(rig)
    rig.advance(20)

    assert (await worker.heartbeat())["taken_until"] == []
    assert (await rig.root.get(run))["taken_until"] == run["taken_until"]
    assert [one["task_id"] for one in (await worker.heartbeat(every=True))["taken_until"]] == [run["id"]]


async def test_a_heartbeat_reads_that_a_pause_is_wanted_l1(rig: Rig):
    worker, run = await worked(rig)
    await rig.root.pause(run)

    answer = await worker.heartbeat(run)

    assert answer["pause"] == [{"task_id": run["id"], "run_id": 0}]
    assert (answer["cancel"], answer["gone"]) == ([], [])
    assert (await rig.root.get(run))["cancel_requested"] is True


@pytest.mark.parametrize("every", [False, True])
async def test_a_heartbeat_reads_that_a_cancel_is_wanted_l1(rig: Rig, every: bool):
    worker, run = await worked(rig)
    await rig.root.cancel(run)

    answer = await worker.heartbeat(every=True) if every else await worker.heartbeat(run)

    assert answer["cancel"] == [{"task_id": run["id"], "run_id": 0}]


async def test_a_heartbeat_that_lost_its_lease_learns_so_and_renews_nothing_l1(rig: Rig):
    worker, other = await worker_of(rig), await rig.root.register_worker(JOB)
    await rig.root.submit(max_requeues=1)
    lost = await worker.begin()
    rig.advance(60)
    await other.heartbeat()
    await rig.sweep()
    new = await other.begin()
    rig.advance(10)

    answer = await worker.heartbeat(lost)

    assert (answer["gone"], answer["taken_until"]) == ([{"task_id": lost["id"], "run_id": 0}], [])
    assert (await rig.root.get(new))["taken_until"] == new["taken_until"]


async def test_another_workers_heartbeat_does_not_renew_a_run_l1(rig: Rig):
    worker, other = await worker_of(rig), await rig.root.register_worker(JOB)
    await rig.root.submit()
    run = await worker.begin()
    rig.advance(10)

    answer = await other.heartbeat(run)

    assert answer["gone"] == [{"task_id": run["id"], "run_id": 0}]
    assert (await rig.root.get(run))["taken_until"] == run["taken_until"]


async def test_claiming_clears_what_an_earlier_pause_left_l3(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit()
    first = await worker.begin()
    await rig.root.pause(first)
    await worker.pause_report(first)
    await rig.root.resume(task)

    second = await worker.begin()

    assert (second["run_id"], second["cancel_requested"]) == (1, False)
    assert (await worker.heartbeat(second))["pause"] == []


async def test_the_sweeper_finds_an_expired_lease_though_no_worker_asks_l5(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit(max_requeues=1)
    await worker.begin()
    rig.advance(59.9)
    await worker.heartbeat()
    await rig.sweep()
    assert (await rig.root.get(task))["status"] == "running"

    rig.advance(0.1)
    await rig.sweep()

    assert (await rig.root.get(task))["status"] == "pending"


async def test_a_report_of_the_expired_owner_is_accepted_before_the_sweep_and_refused_after_l5(rig: Rig):
    worker = await worker_of(rig)
    early, late = await rig.root.submit(max_requeues=1), await rig.root.submit(max_requeues=1)
    first = await worker.begin()
    rig.advance(3600)
    assert (await worker.complete(first, 1))["status"] == "completed"
    second = await worker.begin()
    rig.advance(60)
    await worker.heartbeat()
    await rig.sweep()

    with refused("stale-run", 409):
        await worker.complete(second, 2)

    assert (first["id"], second["id"]) == (early["id"], late["id"])
    assert ((await rig.root.get(late))["status"], (await rig.root.get(late))["result"]) == ("pending", None)


async def test_of_a_heartbeat_and_a_sweep_at_the_same_instant_one_wins_l5(rig: Rig):
    worker = await worker_of(rig, concurrency=6)
    await rig.root.submit_many(*[{"job": JOB, "max_requeues": 9}] * 6)
    runs = await worker.claim(6)
    for run in runs:
        await worker.start(run)
    rig.advance(60)

    answer, _ = await asyncio.gather(worker.heartbeat(*runs), rig.sweep())

    renewed = {one["task_id"] for one in answer["taken_until"]}
    gone = {one["task_id"] for one in answer["gone"]}
    assert renewed | gone == {run["id"] for run in runs}
    assert not renewed & gone
    for run in runs:
        now = await rig.root.get(run)
        assert now["status"] == ("running" if run["id"] in renewed else "pending")
        assert len(await rig.root.runs(run)) == 1


async def test_two_sweepers_at_once_end_a_run_once_l5(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit(max_requeues=9)
    await worker.begin()
    other = rig.new_sweeper()
    await other.turn()
    rig.advance(61)
    await worker.heartbeat()

    await asyncio.gather(rig.sweep(), other.turn())

    now = await rig.root.get(task)
    assert (now["requeue_count"], now["status"]) == (1, "pending")
    assert [run["reason"] for run in await rig.root.runs(task)] == ["claim-expired"]


async def test_a_poison_task_ends_failed_when_its_requeues_are_spent_l5(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit(max_requeues=3)

    for _ in range(4):
        await worker.begin()
        rig.advance(61)
        await worker.heartbeat()
        await rig.sweep()
        rig.advance(10)
        await rig.promote()

    now = await rig.root.get(task)
    assert (now["status"], now["reason"], now["error"]) == ("failed", "claim-expired", "Worker disconnected")
    assert [run["reason"] for run in await rig.root.runs(task)] == ["claim-expired"] * 4
    assert await worker.claim() == []


@pytest.mark.parametrize("jump", [3600, -3600])
async def test_a_clock_that_jumps_an_hour_takes_no_run_from_its_worker_l5(rig: Rig, jump: float):
    """Nor does it by the limits of its start and its time, which the server follows only when the worker does not."""
    worker = await worker_of(rig, concurrency=3)
    begun = await rig.root.submit(timeout=300)
    claimed = await rig.root.submit(start_timeout=30)
    [first, second] = await worker.claim(3)
    await worker.start(first)
    rig.advance(4)
    rig.jump(jump)

    for _ in range(4):
        await rig.sweep()
        await worker.heartbeat(first, second)
        rig.advance(4)

    assert (await rig.root.get(begun))["status"] == "running"
    assert (await rig.root.get(claimed))["status"] == "claimed"


@pytest.mark.parametrize("jump", [3600, -3600])
async def test_after_a_jump_of_the_clock_a_silent_worker_is_noticed_within_one_lease_l5(rig: Rig, jump: float):
    worker = await worker_of(rig)
    task = await rig.root.submit(max_requeues=1)
    await worker.begin()
    rig.jump(jump)
    await rig.sweep()

    rig.advance(61)
    await rig.sweep()

    assert (await rig.root.get(task))["status"] == "pending"


@pytest.mark.parametrize("jump", [3600, -3600])
async def test_after_a_jump_of_the_clock_a_run_that_is_never_started_is_released_l5(rig: Rig, jump: float):
    worker = await worker_of(rig)
    task = await rig.root.submit(max_requeues=1, start_timeout=30, lease_seconds=600)
    await worker.take()
    rig.jump(jump)
    await rig.sweep()

    rig.advance(31)
    await worker.heartbeat()
    await rig.sweep()

    assert (await rig.root.get(task))["status"] == "pending"


@pytest.mark.parametrize("jump", [3600, -3600])
async def test_a_jump_of_the_clock_ends_no_hold_and_prolongs_none_for_ever_l5(rig: Rig, jump: float):
    worker, other = await worker_of(rig), await rig.root.register_worker(JOB)
    await rig.root.submit(target="cam")
    run = await worker.begin()
    waiting = await rig.root.submit(target="cam")
    await rig.root.cancel(run)
    rig.jump(jump)
    await rig.sweep()
    rig.advance(4)
    await rig.sweep()
    assert await other.claim() == []

    rig.advance(60)
    await other.heartbeat()
    await rig.sweep()

    assert (await other.take())["id"] == waiting["id"]


async def test_nothing_that_is_due_is_lost_or_comes_early_for_ever_by_a_jump_of_the_clock_l5(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit(delay=60)
    rig.jump(3600)
    await rig.promote()
    assert (await rig.root.get(task))["status"] == "pending"

    back = await rig.root.submit(delay=60)
    rig.jump(-3600)
    await rig.promote()
    assert (await rig.root.get(back))["status"] == "scheduled"
    assert (await worker.take())["id"] == task["id"]  # what was put into the queue stays there
    rig.advance(3660)
    await rig.promote()

    assert (await rig.root.get(back))["status"] == "pending"

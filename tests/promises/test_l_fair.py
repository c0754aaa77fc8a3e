"""Rows L9, L10 and E13: who is served when, and who no more."""

import pytest

from tests.promises.rig import Rig, worker_of
from tests.promises.words import JOB


async def test_a_draining_worker_finishes_what_it_has_and_is_given_no_more_e13_l10(rig: Rig):
    worker = await worker_of(rig)
    other = await rig.root.register_worker(JOB)
    await rig.root.submit()
    run = await worker.begin()

    shown = await worker.heartbeat(run, draining=True)
    more = await rig.root.submit()

    assert shown["state"] == "draining"
    if rig.transport == "http":
        assert await worker.claim() == []
    assert (await rig.root.get(more))["status"] == "pending"
    assert (await worker.complete(run))["status"] == "completed"
    assert (await other.take())["id"] == more["id"]


async def test_what_a_draining_worker_hands_back_costs_no_budget_l10(rig: Rig):
    worker = await worker_of(rig)
    await rig.root.submit(max_requeues=0)

    back = await worker.hand_back(await worker.take())
    started = await worker.begin()
    interrupted = await worker.exception(started, "worker-shutdown")

    assert (back["status"], back["requeue_count"]) == ("pending", 0)
    assert interrupted["status"] == "failed"  # started ones cost the requeue budget, which is spent


@pytest.mark.parametrize("shared", [True, False])
async def test_a_small_room_is_served_in_turn_beside_a_crowded_one_l9(rig: Rig, shared: bool):
    rooms = ["crowd", "small"]
    if shared:
        await rig.root.register_job("add", room="@global", fair="room")
        jobs = dict.fromkeys(rooms, "@global:tasks:add")
    else:
        for room in rooms:
            await rig.root.register_job("add", room=room)
        jobs = {room: f"{room}:tasks:add" for room in rooms}
    worker = await rig.root.register_worker(*set(jobs.values()))
    for room, count in (("crowd", 30), ("small", 3)):
        await rig.root.submit_many(*[{"job": jobs[room]}] * count, room=room)

    order = []
    for _ in range(8):
        run = await worker.begin()
        await worker.complete(run)
        order.append(run["room_id"])

    assert order[:6].count("small") == 3
    assert order[6:] == ["crowd", "crowd"]


async def test_a_higher_priority_goes_before_any_turn_l9(rig: Rig):
    for room in ("a", "b"):
        await rig.root.register_job("add", room=room)
    worker = await rig.root.register_worker("a:tasks:add", "b:tasks:add")
    await rig.root.submit("b:tasks:add")
    urgent = await rig.root.submit_many(*[{"job": "a:tasks:add", "priority": 1}] * 3, room="a")

    order = []
    for _ in range(3):
        run = await worker.begin()
        await worker.complete(run)
        order.append(run["id"])

    assert order == [task["id"] for task in urgent]


async def test_positions_of_a_fair_job_count_within_the_room_l9(rig: Rig):
    await rig.root.register_job("add", room="@global", fair="room")
    job = "@global:tasks:add"
    await rig.root.submit_many(*[{"job": job}] * 5, room="crowd")

    small = await rig.root.submit(job, room="small")

    assert small["queue_position"] == 1


async def test_a_task_that_asks_for_a_pool_runs_only_there_and_one_without_anywhere_l9(rig: Rig):
    plain = await worker_of(rig)
    gpu = await rig.root.register_worker(JOB, pool="gpu")
    pooled, free = await rig.root.submit(pool="gpu"), await rig.root.submit()

    assert (await plain.take())["id"] == free["id"]
    assert await plain.claim() == []
    assert (await gpu.take())["id"] == pooled["id"]


async def test_a_paused_queue_is_not_claimed_from_and_a_unique_key_returns_the_open_task_l9(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit(unique_key="k")
    assert (await rig.root.submit(unique_key="k"))["id"] == task["id"]
    await rig.root.pause_queue(JOB)
    assert await worker.claim() == []

    await rig.root.pause_queue(JOB, paused=False)

    assert (await worker.take())["id"] == task["id"]

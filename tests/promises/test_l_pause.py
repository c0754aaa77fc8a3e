"""Row L4: a pause asks the running code to stop; and what it meets on the way."""

import asyncio

import pytest

from tests.promises.problems import Problem, refused
from tests.promises.rig import Rig, worked


async def test_a_pause_is_a_flag_that_the_owner_sees_and_the_confirmed_one_pauses_l4(rig: Rig):
    worker, run = await worked(rig)
    other = await rig.enter("admin", rig.served.token)

    asked = await other.pause(run)
    seen = await worker.heartbeat(run)
    paused = await worker.pause_report(run, checkpoint={"at": 7})

    assert (asked["status"], asked["cancel_requested"]) == ("running", True)
    assert seen["pause"] == [{"task_id": run["id"], "run_id": 0}]
    assert (paused["status"], paused["error"], paused["cancel_requested"]) == ("paused", "interrupted by user", False)
    assert paused["checkpoint"] == {"at": 7}


@pytest.mark.parametrize("first", ["pause", "completion"])
async def test_a_completion_wins_over_a_pause_whichever_came_first_and_clears_the_flag_l4(rig: Rig, first: str):
    worker, run = await worked(rig)
    if first == "pause":
        await rig.root.pause(run)
        done = await worker.complete(run, 1)
    else:
        done = await worker.complete(run, 1)
        with refused("invalid-task-transition", 409):
            await rig.root.pause(run)

    assert (done["status"], done["result"], done["cancel_requested"]) == ("completed", 1, False)


async def test_a_completion_and_a_pause_at_the_same_instant_end_completed_l4(rig: Rig):
    worker, run = await worked(rig)

    answers = await asyncio.gather(worker.complete(run, 1), rig.root.pause(run), return_exceptions=True)

    assert not isinstance(answers[0], BaseException)
    assert isinstance(answers[1], dict | Problem)
    now = await rig.root.get(run)
    assert (now["status"], now["cancel_requested"]) == ("completed", False)


@pytest.mark.parametrize("reason", ["error", "timeout"])
async def test_code_that_raises_while_it_cleans_up_ends_paused_all_the_same_l4(rig: Rig, reason: str):
    worker, run = await worked(rig, max_retries=3)
    await rig.root.pause(run)

    now = await worker.fail(run, "cleanup broke", reason=reason)

    assert (now["status"], now["retry_count"], now["cancel_requested"]) == ("paused", 0, False)


async def test_a_pause_whose_worker_dies_ends_paused_l4(rig: Rig):
    worker, run = await worked(rig, max_requeues=3)
    await rig.root.pause(run)
    rig.advance(61)
    await worker.heartbeat()

    await rig.sweep()

    now = await rig.root.get(run)
    assert (now["status"], now["requeue_count"], now["cancel_requested"]) == ("paused", 0, False)


async def test_a_pause_whose_worker_leaves_ends_paused_l4(rig: Rig):
    worker, run = await worked(rig, max_requeues=3)
    await rig.root.pause(run)

    await worker.leave()

    assert (await rig.root.get(run))["status"] == "paused"


@pytest.mark.parametrize("paused", [False, True])
async def test_usage_above_the_budget_fails_paused_or_not_l4(rig: Rig, paused: bool):
    worker, run = await worked(rig, budget=10, max_retries=3)
    if paused:
        await rig.root.pause(run)

    now = await worker.pause_report(run, usage=11) if paused else await worker.fail(run, usage=11)

    assert (now["status"], now["reason"], now["usage"]) == ("failed", "budget-exceeded", 11)
    assert (now["cancel_requested"], now["retry_count"]) == (False, 0)


async def test_usage_within_the_budget_fails_nothing_l4(rig: Rig):
    worker, run = await worked(rig, budget=10)

    now = await worker.pause_report(run, usage=10)

    assert (now["status"], now["usage"]) == ("paused", 10)


async def test_a_second_pause_changes_nothing_l4(rig: Rig):
    _, run = await worked(rig)
    asked = await rig.root.pause(run)

    again = await rig.root.pause(run)

    assert (again["version"], again["cancel_requested"]) == (asked["version"], True)

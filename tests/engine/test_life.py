"""A task's life through the engine, on both databases."""

import asyncio

import pytest

from treadle.wire.status import Reason, Status
from treadle_server.engine.commands import Beat, ExpireLeases, PromoteDue, ReleaseHolds, SweepWorkers
from treadle_server.errors import InvalidTaskTransition, StaleRun, TaskConflict

pytestmark = pytest.mark.anyio


async def test_a_task_goes_from_pending_over_claimed_and_running_to_completed_z7_z8(shop, clock) -> None:
    worker = await shop.worker()
    [task] = await shop.submit()
    assert (task.status, task.created_at) == (Status.PENDING, clock.now())

    clock.advance(1)
    [claimed] = await shop.claim(worker)
    assert (claimed.status, claimed.run_id, claimed.claimed_at) == (Status.CLAIMED, 0, clock.now())
    clock.advance(1)
    started = await shop.report(claimed, "started")
    assert (started.status, started.started_at) == (Status.RUNNING, clock.now())
    clock.advance(1)
    done = await shop.report(claimed, "completed", result="42")

    assert (done.status, done.result, done.completed_at) == (Status.COMPLETED, "42", clock.now())
    assert (await shop.get(task.id)).status is Status.COMPLETED


async def test_completing_what_was_never_started_is_refused_z7(shop) -> None:
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)

    with pytest.raises(InvalidTaskTransition):
        await shop.report(claimed, "completed")

    assert (await shop.get(claimed.id)).status is Status.CLAIMED


async def test_claims_come_by_priority_then_due_time_then_arrival_z9(shop) -> None:
    worker = await shop.worker()
    [low] = await shop.submit(options={"priority": -1})
    first, second = await shop.submit(2)
    [high] = await shop.submit(options={"priority": 5})

    claimed = await shop.claim(worker, 10)

    assert [task.id for task in claimed] == [high.id, first.id, second.id, low.id]


async def test_a_failure_is_retried_after_5_10_and_20_seconds_then_fails_t4(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit(options={"max_retries": 3})

    for attempt, delay in enumerate([5, 10, 20]):
        [claimed] = await shop.claim(worker)
        failed = await shop.run(claimed, "failed", error="boom", traceback="Traceback …")
        assert (failed.status, failed.retry_count) == (Status.SCHEDULED, attempt + 1)
        assert (failed.next_retry_at - clock.now()).total_seconds() == delay
        clock.advance(delay - 0.001)
        assert await shop.engine.run(PromoteDue()) == 0
        clock.advance(0.001)
        assert await shop.engine.run(PromoteDue()) == 1
    [claimed] = await shop.claim(worker)
    failed = await shop.run(claimed, "failed", error="boom")

    assert (failed.status, failed.reason) == (Status.FAILED, Reason.ERROR)
    assert await shop.claim(worker) == []


async def test_an_explicit_zero_beats_the_jobs_retries_t3(shop) -> None:
    await shop.register("retried", defaults='{"max_retries": 3}')
    job = "@global:tasks:retried"
    worker = await shop.worker(job)
    [task] = await shop.submit(job=job, options={"max_retries": 0})
    [other] = await shop.submit(job=job)

    assert (task.max_retries, other.max_retries) == (0, 3)
    [claimed] = await shop.claim(worker)
    assert (await shop.run(claimed, "failed", error="boom")).status is Status.FAILED


async def test_the_same_report_again_is_fine_and_another_one_is_refused_c7(shop) -> None:
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.run(claimed, "completed", result="1")

    again = await shop.report(claimed, "completed", result="1")
    assert again.status is Status.COMPLETED

    with pytest.raises(StaleRun):
        await shop.report(claimed, "completed", result="2")
    with pytest.raises(StaleRun):
        await shop.report(claimed, "failed", error="boom")


async def test_g3_a_run_that_lost_its_lease_changes_nothing(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit(options={"max_requeues": 5})
    [old] = await shop.claim(worker)
    await shop.report(old, "started")
    clock.advance(61)
    assert await shop.engine.run(ExpireLeases()) == 1
    [new] = await shop.claim(worker)
    assert (new.id, new.run_id) == (old.id, 1)

    for kind, details in [
        ("completed", {"result": "1"}),
        ("failed", {"error": "late"}),
        ("checkpoint", {"checkpoint": "1"}),
        ("progress", {"progress": "1"}),
        ("started", {}),
    ]:
        with pytest.raises(StaleRun):
            await shop.report(old, kind, **details)
    beaten = await shop.engine.run(Beat(principal=shop.principal, worker_id=worker, tasks=[_renewal(old)]))

    assert beaten.gone == [(old.id, 0)]
    now = await shop.get(old.id)
    assert (now.status, now.run_id, now.checkpoint, now.result) == (Status.CLAIMED, 1, None, None)


def _renewal(task):
    from treadle.wire.workers import Renewal

    return Renewal(task_id=task.id, run_id=task.run_id)


async def test_c5_a_lease_that_is_not_renewed_ends_as_claim_expired(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit(options={"max_requeues": 1})
    [first] = await shop.claim(worker)
    await shop.report(first, "started")
    clock.advance(60)
    await shop.engine.run(ExpireLeases())
    [second] = await shop.claim(worker)
    await shop.report(second, "started")
    clock.advance(60)
    await shop.engine.run(ExpireLeases())

    task = await shop.get(first.id)
    assert (task.status, task.error, task.worker_id) == (Status.FAILED, "Worker disconnected", worker)


async def test_a_report_after_expiry_and_before_the_sweep_is_accepted_l5(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    clock.advance(3600)

    done = await shop.report(claimed, "completed")

    assert done.status is Status.COMPLETED


async def test_a_heartbeat_extends_the_lease_and_an_increment_of_zero_does_not_e4(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit()
    await shop.submit(options={"heartbeat_increment": 0})
    usual, strict = await shop.claim(worker, 2)
    clock.advance(30)

    await shop.engine.run(Beat(principal=shop.principal, worker_id=worker))

    assert (await shop.get(usual.id)).taken_until == clock.now() + usual.lease
    assert (await shop.get(strict.id)).taken_until == strict.taken_until


async def test_what_is_claimed_and_never_started_is_released_after_its_start_timeout(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit(options={"start_timeout": 10, "max_requeues": 1})
    await shop.claim(worker)
    clock.advance(10)

    assert await shop.engine.run(ExpireLeases()) == 1

    [again] = await shop.claim(worker)
    assert again.run_id == 1


async def test_a_silent_worker_is_lost_and_its_task_fails_z11(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    clock.advance(61)

    assert await shop.engine.run(SweepWorkers(60)) == [worker]

    task = await shop.get(claimed.id)
    assert (task.status, task.error, task.worker_id) == (Status.FAILED, "Worker disconnected", worker)


async def test_cancel_is_at_once_and_the_report_that_comes_later_is_refused(shop) -> None:
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")

    cancelled = await shop.steer(claimed, "cancel")

    assert cancelled.status is Status.CANCELLED
    with pytest.raises(StaleRun):
        await shop.report(claimed, "completed")
    assert (await shop.get(claimed.id)).status is Status.CANCELLED


async def test_a_pause_is_confirmed_by_the_worker_and_resume_goes_on_from_the_checkpoint(shop) -> None:
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    asked = await shop.steer(claimed, "pause")
    assert (asked.status, asked.cancel_requested) == (Status.RUNNING, True)
    beaten = await shop.engine.run(Beat(principal=shop.principal, worker_id=worker))
    assert beaten.pause == [(claimed.id, 0)]

    paused = await shop.report(claimed, "paused", checkpoint='{"at": 7}')

    assert (paused.status, paused.error, paused.cancel_requested) == (Status.PAUSED, "interrupted by user", False)
    assert await shop.claim(worker) == []
    resumed = await shop.steer(claimed, "resume")
    assert resumed.status is Status.PENDING
    [again] = await shop.claim(worker)
    assert again.run_id == 1
    assert again.checkpoint.replace(" ", "") == '{"at":7}'


async def test_a_completion_that_comes_before_the_pause_wins(shop) -> None:
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    await shop.steer(claimed, "pause")

    done = await shop.report(claimed, "completed")

    assert (done.status, done.cancel_requested) == (Status.COMPLETED, False)


async def test_a_worker_lost_while_a_pause_is_asked_leaves_the_task_paused(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    await shop.steer(claimed, "pause")
    clock.advance(60)

    await shop.engine.run(ExpireLeases())

    assert (await shop.get(claimed.id)).status is Status.PAUSED


async def test_two_resumes_at_once_make_one_run(shop) -> None:
    await shop.worker()
    [task] = await shop.submit()
    await shop.steer(task, "pause")

    answers = await asyncio.gather(shop.steer(task, "resume"), shop.steer(task, "resume"), return_exceptions=True)

    assert sorted(type(a).__name__ for a in answers) == ["InvalidTaskTransition", "Task"]


async def test_rerun_starts_again_without_checkpoint_and_keeps_the_runs(shop) -> None:
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    await shop.report(claimed, "checkpoint", checkpoint="1")
    await shop.report(claimed, "completed", result="1")

    again = await shop.steer(claimed, "rerun")

    assert (again.status, again.checkpoint, again.result) == (Status.PENDING, None, None)
    [second] = await shop.claim(worker)
    assert second.run_id == 1


async def test_an_undo_with_a_version_acts_only_on_what_nobody_touched(shop) -> None:
    await shop.worker()
    [task] = await shop.submit()
    paused = await shop.steer(task, "pause", if_version=task.version)

    with pytest.raises(TaskConflict):
        await shop.steer(task, "resume", if_version=paused.version - 1)
    assert (await shop.steer(task, "resume", if_version=paused.version)).status is Status.PENDING


async def test_a_target_runs_one_task_at_a_time_in_order_and_a_failed_one_holds_it_l2(shop) -> None:
    worker = await shop.worker()
    first, second, third = await shop.submit(3, target="cam")
    [free] = await shop.submit()

    claimed = await shop.claim(worker, 10)
    assert [task.id for task in claimed] == [first.id, free.id]
    await shop.run(claimed[0], "completed")
    [claimed] = await shop.claim(worker, 10)
    assert claimed.id == second.id
    await shop.run(claimed, "failed", error="boom")
    assert await shop.claim(worker, 10) == []

    await shop.steer(claimed, "resolve")
    [claimed] = await shop.claim(worker, 10)
    assert claimed.id == third.id


async def test_a_cancelled_run_holds_its_target_until_its_code_has_stopped(shop) -> None:
    worker = await shop.worker()
    _, second = await shop.submit(2, target="cam")
    [claimed] = await shop.claim(worker, 10)
    await shop.report(claimed, "started")
    await shop.steer(claimed, "cancel")
    assert await shop.claim(worker, 10) == []

    await shop.report(claimed, "stopped")

    [claimed] = await shop.claim(worker, 10)
    assert claimed.id == second.id


async def test_a_hold_ends_with_its_lease(shop, clock) -> None:
    worker = await shop.worker()
    _, second = await shop.submit(2, target="cam")
    [claimed] = await shop.claim(worker, 10)
    await shop.report(claimed, "started")
    await shop.steer(claimed, "cancel")
    clock.advance(60)

    assert await shop.engine.run(ReleaseHolds()) == 1

    [claimed] = await shop.claim(worker, 10)
    assert claimed.id == second.id


async def test_a_unique_key_returns_the_open_task_and_a_settled_one_frees_it(shop) -> None:
    worker = await shop.worker()
    [first] = await shop.submit(unique_key="k")
    [second] = await shop.submit(unique_key="k")
    assert second.id == first.id
    [claimed] = await shop.claim(worker)
    await shop.run(claimed)

    [third] = await shop.submit(unique_key="k")

    assert third.id != first.id


async def test_g2_fifty_workers_claim_a_thousand_tasks_each_once(shop) -> None:
    workers = [await shop.worker() for _ in range(50)]
    submitted = await shop.submit(1000)

    async def claim_all(worker) -> list[str]:
        mine = []
        while batch := await shop.claim(worker, 7):
            mine += [task.id for task in batch]
        return mine

    claimed = [task_id for mine in await asyncio.gather(*map(claim_all, workers)) for task_id in mine]

    assert len(claimed) == 1000
    assert set(claimed) == {task.id for task in submitted}

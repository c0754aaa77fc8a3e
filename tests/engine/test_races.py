"""Requests that meet each other, and code that outlives its task."""

import asyncio

import pytest

from treadle.wire.status import Reason, Status
from treadle_server.access.principal import Principal
from treadle_server.engine.commands import Beat, Edit, ExpireLeases, PatchStatus, PromoteDue, RemoveWorker, RunReport
from treadle_server.errors import Forbidden, InvalidTaskTransition, StaleRun, UniqueKeyHeld, ValidationFailed

pytestmark = pytest.mark.anyio


async def started(shop, **details):
    worker = await shop.worker()
    await shop.submit(**details)
    [claimed] = await shop.claim(worker)
    return await shop.report(claimed, "started")


async def test_a_unique_key_goes_back_to_a_task_beside_the_cancel_of_its_holder_l9(shop) -> None:
    [first] = await shop.submit(unique_key="k")
    await shop.steer(first, "cancel")
    [holder] = await shop.submit(unique_key="k")

    cancelled, back = await asyncio.gather(shop.steer(holder, "cancel"), shop.steer(first, "rerun"))

    assert (cancelled.status, back.status) == (Status.CANCELLED, Status.PENDING)


async def test_a_unique_key_goes_from_task_to_task_within_one_transaction(shop) -> None:
    [first] = await shop.submit(unique_key="k")
    [third] = await shop.submit()

    def edit(task, key):
        return shop.engine.run(Edit(principal=shop.principal, task_id=task.id, changes={"unique_key": key}))

    _, [second], refused, _, _ = await asyncio.gather(
        edit(first, None), shop.submit(unique_key="k"), edit(third, "k"), edit(first, "m"), edit(third, "n"),
        return_exceptions=True,
    )  # fmt: skip

    assert isinstance(refused, UniqueKeyHeld)
    keys = [(await shop.get(task.id)).unique_key for task in (first, second, third)]
    assert (keys, second.id == first.id) == (["m", "k", "n"], False)


@pytest.mark.parametrize("first", ["completed", "cancel"])
async def test_of_a_completion_and_a_cancel_at_the_same_instant_one_wins(shop, first) -> None:
    task = await started(shop)
    requests = [shop.report(task, "completed", result="1"), shop.steer(task, "cancel")]
    if first == "cancel":
        requests.reverse()

    answers = await asyncio.gather(*requests, return_exceptions=True)

    assert not isinstance(answers[0], Exception)
    assert isinstance(answers[1], InvalidTaskTransition | StaleRun)
    expected = Status.COMPLETED if first == "completed" else Status.CANCELLED
    assert (await shop.get(task.id)).status is expected


async def test_a_rerun_waits_until_the_cancelled_code_has_stopped_l6(shop) -> None:
    task = await started(shop)
    await shop.steer(task, "cancel")
    assert (await shop.steer(task, "rerun")).status is Status.PENDING
    other = await shop.worker()
    assert await shop.claim(other) == []

    await shop.report(task, "stopped")

    [again] = await shop.claim(other)
    assert (again.id, again.run_id) == (task.id, 1)


async def test_a_refused_report_shows_that_the_code_has_ended_and_frees_the_target(shop) -> None:
    task = await started(shop, target="cam")
    [waiting] = await shop.submit(target="cam")
    await shop.steer(task, "cancel")
    other = await shop.worker()
    assert await shop.claim(other) == []

    with pytest.raises(StaleRun):
        await shop.report(task, "completed", result="1")

    [claimed] = await shop.claim(other)
    assert claimed.id == waiting.id


async def test_a_heartbeat_that_names_a_hold_renews_it_and_says_cancel(shop, clock) -> None:
    from treadle.wire.workers import Renewal

    task = await started(shop, target="cam")
    await shop.submit(target="cam")
    await shop.steer(task, "cancel")
    clock.advance(50)

    beat = Beat(principal=shop.principal, worker_id=task.worker_id, tasks=[Renewal(task_id=task.id, run_id=0)])
    beaten = await shop.engine.run(beat)

    assert beaten.cancel == [(task.id, 0)]
    clock.advance(50)  # past the first lease, within the renewed one
    assert await shop.claim(await shop.worker()) == []


async def test_of_two_blockers_the_resumed_one_runs_first_when_the_other_is_settled_l7(shop) -> None:
    worker = await shop.worker()
    first, second = await shop.submit(2, target="cam", options={"on_failure": "release"})
    for _ in range(2):
        [claimed] = await shop.claim(worker)
        await shop.run(claimed, "failed", error="boom")
    await shop.steer(first, "resume")
    await shop.steer(second, "resume")
    await shop.steer(first, "pause")
    await shop.steer(second, "pause")
    [third] = await shop.submit(target="cam", options={"priority": 9})
    assert await shop.claim(worker) == []

    await shop.steer(second, "resume")
    assert await shop.claim(worker) == []  # the other still holds it
    await shop.steer(first, "resolve")

    [claimed] = await shop.claim(worker)
    assert claimed.id == second.id
    await shop.run(claimed)
    [claimed] = await shop.claim(worker)
    assert claimed.id == third.id


async def test_a_retry_that_waits_holds_its_target_l2(shop, clock) -> None:
    worker = await shop.worker()
    first, second = await shop.submit(2, target="cam", options={"max_retries": 1})
    [claimed] = await shop.claim(worker)
    await shop.run(claimed, "failed", error="boom")
    assert await shop.claim(worker) == []
    clock.advance(5)
    await shop.engine.run(PromoteDue())

    [claimed] = await shop.claim(worker)

    assert (claimed.id, claimed.run_id) == (first.id, 1)
    await shop.run(claimed)
    [claimed] = await shop.claim(worker)
    assert claimed.id == second.id


async def test_a_scheduled_task_that_never_ran_does_not_hold_its_target_l2(shop) -> None:
    worker = await shop.worker()
    await shop.submit(target="cam", delay=60)
    [now] = await shop.submit(target="cam")

    [claimed] = await shop.claim(worker)

    assert claimed.id == now.id


async def test_a_poison_task_ends_failed_when_its_requeues_are_spent(shop, clock) -> None:
    worker = await shop.worker()
    [task] = await shop.submit(options={"max_requeues": 3})
    for _ in range(4):
        [claimed] = await shop.claim(worker)
        await shop.report(claimed, "started")
        clock.advance(60)
        await shop.engine.run(ExpireLeases())
        clock.advance(60)
        await shop.engine.run(PromoteDue())

    poisoned = await shop.get(task.id)
    assert (poisoned.status, poisoned.reason, poisoned.run_id) == (Status.FAILED, Reason.CLAIM_EXPIRED, 3)


async def test_a_retry_changes_no_other_task_e7(shop) -> None:
    worker = await shop.worker()
    _, second = await shop.submit(2, options={"max_retries": 2})
    [claimed] = await shop.claim(worker)
    await shop.run(claimed, "failed", error="boom")

    untouched = await shop.get(second.id)
    assert (untouched.retry_count, untouched.version, untouched.due_at) == (0, 1, second.due_at)


@pytest.mark.parametrize("reason", [Reason.MALFORMED_PAYLOAD, Reason.INTERNAL_ERROR, Reason.RESOURCE_UNAVAILABLE])
async def test_permanent_exceptions_are_not_tried_again_c6_c12(shop, reason) -> None:
    task = await started(shop, options={"max_retries": 5, "max_requeues": 5})

    failed = await shop.report(task, "exception", reason=reason, error="why")

    assert (failed.status, failed.reason, failed.error) == (Status.FAILED, reason, "why")


@pytest.mark.parametrize("reason", [Reason.WORKER_SHUTDOWN, Reason.INTERMITTENT_TASK])
async def test_infrastructure_exceptions_are_requeued_c6(shop, reason) -> None:
    task = await started(shop, options={"max_retries": 0, "max_requeues": 5})

    requeued = await shop.report(task, "exception", reason=reason)

    assert (requeued.status, requeued.requeue_count, requeued.retry_count) == (Status.PENDING, 1, 0)


@pytest.mark.parametrize("reason", [None, Reason.CLAIM_EXPIRED, Reason.DEADLINE_EXCEEDED, Reason.CANCELLED])
async def test_a_reason_that_no_worker_may_give_changes_nothing_c6_g9(shop, reason) -> None:
    task = await started(shop)

    with pytest.raises(ValidationFailed):
        await shop.report(task, "exception", reason=reason)

    assert (await shop.get(task.id)).status is Status.RUNNING


async def test_usage_beyond_the_budget_fails_the_task_l4(shop) -> None:
    task = await started(shop, options={"budget": 10, "max_retries": 5})

    await shop.report(task, "progress", progress="{}", usage=11)

    failed = await shop.get(task.id)
    assert (failed.status, failed.reason, failed.usage) == (Status.FAILED, Reason.BUDGET_EXCEEDED, 11)


async def test_a_claim_whose_answer_was_lost_is_released_by_its_start_timeout(shop, clock) -> None:
    worker = await shop.worker()
    [task] = await shop.submit(options={"max_requeues": 1, "start_timeout": 5})
    await shop.claim(worker)  # the answer never arrives
    clock.advance(5)
    await shop.engine.run(ExpireLeases())

    [again] = await shop.claim(worker)

    assert (again.id, again.run_id) == (task.id, 1)


async def test_an_older_client_that_lost_its_task_gets_409_z18(shop) -> None:
    task = await started(shop)
    await shop.steer(task, "cancel")

    with pytest.raises(InvalidTaskTransition):
        await shop.engine.run(
            PatchStatus(
                principal=shop.principal,
                task_id=task.id,
                status=Status.COMPLETED,
                report=RunReport(kind="completed"),
            )
        )


async def test_another_user_may_neither_steer_nor_report_z7(shop) -> None:
    task = await started(shop)
    mine, shop.principal = shop.principal, Principal("stranger")

    with pytest.raises(Forbidden):
        await shop.steer(task, "cancel")
    with pytest.raises(Forbidden):
        await shop.report(task, "completed")

    shop.principal = mine
    assert (await shop.report(task, "completed")).status is Status.COMPLETED


async def test_a_worker_that_is_removed_gives_up_what_it_holds_z10_z11(shop) -> None:
    task = await started(shop)

    await shop.engine.run(RemoveWorker(principal=shop.principal, worker_id=task.worker_id))

    lost = await shop.get(task.id)
    assert (lost.status, lost.error, lost.worker_id) == (Status.FAILED, "Worker disconnected", task.worker_id)

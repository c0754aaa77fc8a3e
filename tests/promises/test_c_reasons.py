"""Why a run did not complete, what each reason costs, deadlines, and payloads that are malformed (C6, C11, C12)."""

from datetime import timedelta
from typing import Any

import pytest

from tests.promises.problems import refused
from tests.promises.rig import Rig, worker_of
from tests.promises.words import Task, Worker, run_of

BUDGETS: dict[str, Any] = {"max_retries": 2, "max_requeues": 2, "retry_base": 0}
FATAL = ("malformed-payload", "internal-error", "resource-unavailable")
REQUEUED = ("worker-shutdown", "intermittent-task")
UNREPORTED = ("claim-expired", "start-timeout", "cancelled", "interrupted", "budget-exceeded", "deadline-exceeded")


async def submitted(rig: Rig, **options: Any) -> tuple[Worker, Task]:
    worker = await worker_of(rig)
    task = await rig.root.submit(**options)
    return worker, task


async def again(rig: Rig, worker: Worker) -> Task:
    """Start the next run, however long its pause is."""
    rig.advance(50)
    await worker.heartbeat()
    await rig.promote()
    return await worker.begin()


async def short(rig: Rig, task: Task) -> tuple[Any, ...]:
    now = await rig.root.get(task)
    return tuple(now[name] for name in ("status", "reason", "retry_count", "requeue_count"))


@pytest.mark.parametrize("reason", FATAL)
async def test_c6_what_no_other_run_would_mend_is_not_tried_again(rig: Rig, reason: str):
    worker, task = await submitted(rig, **BUDGETS)

    await worker.exception(await worker.begin(), reason, error="why", traceback="where")

    assert await short(rig, task) == ("failed", reason, 0, 0)
    [run] = await rig.root.runs(task)
    assert [run[name] for name in ("status", "reason", "error", "traceback")] == ["exception", reason, "why", "where"]


async def test_c6_the_plural_that_older_workers_send_is_understood(rig: Rig):
    worker, task = await submitted(rig, **BUDGETS)

    await worker.exception(await worker.begin(), "resources-unavailable")

    assert await short(rig, task) == ("failed", "resource-unavailable", 0, 0)


@pytest.mark.parametrize("reason", REQUEUED)
async def test_c6_infrastructure_spends_requeues_and_no_retries(rig: Rig, reason: str):
    worker, task = await submitted(rig, **BUDGETS)
    for n in (1, 2):
        await worker.exception(await again(rig, worker), reason, error=f"detail {n}")
        status, *spent = await short(rig, task)
        assert status in {"pending", "scheduled"}
        assert spent == [reason, 0, n]

    await worker.exception(await again(rig, worker), reason, error="detail 3")

    assert await short(rig, task) == ("failed", reason, 0, 2)
    assert [run["error"] for run in await rig.root.runs(task)] == ["detail 1", "detail 2", "detail 3"]


@pytest.mark.parametrize("reason", ["error", "timeout"])
async def test_c6_failures_of_the_code_and_timeouts_spend_retries_and_no_requeues(rig: Rig, reason: str):
    worker, task = await submitted(rig, **BUDGETS)
    for n in (1, 2):
        await worker.fail(await again(rig, worker), f"detail {n}", reason=reason)
        assert await short(rig, task) == ("pending", reason, n, 0)

    await worker.fail(await again(rig, worker), "detail 3", reason=reason)

    assert await short(rig, task) == ("failed", reason, 2, 0)
    assert [(run["status"], run["error"]) for run in await rig.root.runs(task)] == [
        ("failed", f"detail {n}") for n in (1, 2, 3)
    ]


async def test_c6_a_lost_lease_and_a_late_start_spend_requeues(rig: Rig):
    worker, task = await submitted(rig, **BUDGETS, lease_seconds=20, start_timeout=10)
    await worker.begin()
    rig.advance(21)
    await worker.heartbeat()
    await rig.sweep()
    assert await short(rig, task) == ("pending", "claim-expired", 0, 1)

    await worker.take()
    rig.advance(11)
    await worker.heartbeat(every=True)
    await rig.sweep()

    status, *spent = await short(rig, task)
    assert (status in {"pending", "scheduled"}, spent) == (True, ["start-timeout", 0, 2])


async def test_c6_the_two_budgets_do_not_touch_each_other(rig: Rig):
    worker, task = await submitted(rig, max_retries=1, max_requeues=1, retry_base=0)

    await worker.fail(await again(rig, worker))
    await worker.exception(await again(rig, worker), "intermittent-task")
    assert await short(rig, task) == ("pending", "intermittent-task", 1, 1)
    await worker.fail(await again(rig, worker))

    assert await short(rig, task) == ("failed", "error", 1, 1)


@pytest.mark.parametrize("reason", [*REQUEUED, "error", "timeout"])
async def test_c6_without_a_budget_the_first_failure_is_the_last(rig: Rig, reason: str):
    worker, task = await submitted(rig, max_retries=0, max_requeues=0)
    run = await worker.begin()

    await (worker.fail(run, reason=reason) if reason in {"error", "timeout"} else worker.exception(run, reason))

    assert await short(rig, task) == ("failed", reason, 0, 0)


async def test_c6_a_run_that_is_handed_back_costs_nothing_and_keeps_its_place(rig: Rig):
    worker, task = await submitted(rig)
    await rig.root.submit()
    for _ in range(3):
        await worker.hand_back(await worker.take())

    run = await worker.take()

    assert (run["id"], run["run_id"], run["retry_count"], run["requeue_count"]) == (task["id"], 3, 0, 0)
    runs = await rig.root.runs(task)
    assert [(one["status"], one["reason"]) for one in runs[:3]] == [("returned", "returned")] * 3


async def test_c6_a_cancel_is_the_reason_of_the_run_that_it_ends(rig: Rig):
    worker, task = await submitted(rig, **BUDGETS)
    await worker.begin()

    await rig.root.cancel(task)

    assert await short(rig, task) == ("cancelled", "cancelled", 0, 0)
    [run] = await rig.root.runs(task)
    assert (run["status"], run["reason"]) == ("cancelled", "cancelled")


async def test_c6_a_confirmed_pause_is_an_interruption_and_costs_nothing(rig: Rig):
    worker, task = await submitted(rig, **BUDGETS)
    run = await worker.begin()
    await rig.root.pause(task)

    await worker.pause_report(run)

    assert await short(rig, task) == ("paused", "interrupted", 0, 0)
    assert (await rig.root.get(task))["error"] == "interrupted by user"
    [ended] = await rig.root.runs(task)
    assert (ended["status"], ended["reason"]) == ("paused", "interrupted")


async def test_c6_a_run_beyond_its_budget_is_an_exception_without_a_retry(rig: Rig):
    worker, task = await submitted(rig, **BUDGETS, budget=10)
    run = await worker.begin()

    beat = await worker.heartbeat(tasks=[{**run_of(run), "usage": 11}])

    assert beat["cancel"] == [run_of(run)]
    assert await short(rig, task) == ("failed", "budget-exceeded", 0, 0)
    [ended] = await rig.root.runs(task)
    assert (ended["status"], ended["reason"], ended["usage"]) == ("exception", "budget-exceeded", 11)


@pytest.mark.parametrize("reason", [*UNREPORTED, "no-such-reason", "completed", ""])
async def test_c6_a_worker_gives_no_reason_that_is_the_servers_to_find(rig: Rig, reason: str):
    worker, task = await submitted(rig, **BUDGETS)
    run = await worker.begin()
    before = await rig.root.get(task)

    with refused("validation-error", 422):
        await worker.exception(run, reason)

    assert await rig.root.get(task) == before


async def test_c6_a_started_run_is_not_handed_back(rig: Rig):
    worker, task = await submitted(rig)
    run = await worker.begin()

    with refused("invalid-task-transition", 409):
        await worker.hand_back(run)

    assert (await rig.root.get(task))["status"] == "running"


def soon(rig: Rig, seconds: float) -> str:
    return (rig.clock.at + timedelta(seconds=seconds)).isoformat()


@pytest.mark.parametrize("state", ["scheduled", "pending", "claimed", "running", "paused", "retrying"])
async def test_c11_past_its_deadline_whatever_is_open_fails(rig: Rig, state: str):
    delay = 3600 if state == "scheduled" else 0
    worker, task = await submitted(rig, **{**BUDGETS, "retry_base": 3600}, deadline=soon(rig, 7200), delay=delay)
    if state == "paused":
        await rig.root.pause(task)
    if state in {"claimed", "running", "retrying"}:
        run = await worker.take()
    if state in {"running", "retrying"}:
        await worker.start(run)
    if state == "retrying":
        await worker.fail(run)
    rig.advance(30)
    await worker.heartbeat(every=True)
    await rig.root.edit(task, tags={}) if state in {"scheduled", "pending"} else None
    rig.advance(7200)

    await rig.sweep()

    now = await rig.root.get(task)
    assert (now["status"], now["reason"], now["error"]) == ("failed", "deadline-exceeded", "the deadline has passed")
    assert now["completed_at"] is not None
    if state in {"claimed", "running"}:
        [ended] = await rig.root.runs(task)
        assert (ended["status"], ended["reason"]) == ("exception", "deadline-exceeded")


async def test_c11_past_its_deadline_a_task_is_not_claimed_though_no_sweep_was_yet(rig: Rig):
    worker, late = await submitted(rig, deadline=soon(rig, 10))
    later = await rig.root.submit(deadline=soon(rig, 100))
    rig.advance(10)

    claims = await worker.claim()

    assert [task["id"] for task in claims] == [later["id"]]
    assert (await rig.root.get(late))["run_id"] is None
    await rig.sweep()
    assert (await rig.root.get(late))["reason"] == "deadline-exceeded"


async def test_c11_past_its_deadline_a_run_is_not_reclaimed_though_no_sweep_was_yet(rig: Rig):
    worker, task = await submitted(rig, deadline=soon(rig, 10))
    run = await worker.begin()
    rig.advance(10)

    beat = await worker.heartbeat(run)

    assert (beat["taken_until"], beat["cancel"]) == ([], [run_of(run)])
    with refused("stale-run", 409):
        await worker.reclaim(run)
    now = await rig.root.get(task)
    assert (now["status"], now["reason"]) == ("failed", "deadline-exceeded")


async def test_c11_before_its_deadline_a_task_runs_and_completes(rig: Rig):
    worker, task = await submitted(rig, deadline=soon(rig, 10))
    rig.advance(9)
    run = await worker.begin()
    await rig.sweep()

    assert (await worker.complete(run))["status"] == "completed"

    rig.advance(10)
    await rig.sweep()
    assert (await rig.root.get(task))["status"] == "completed"


@pytest.mark.parametrize("verb", ["resume", "rerun"])
async def test_c11_past_its_deadline_no_verb_brings_a_task_back(rig: Rig, verb: str):
    _, task = await submitted(rig, deadline=soon(rig, 10))
    rig.advance(10)
    await rig.sweep()

    with refused("invalid-task-transition", 409) as problems:
        await rig.root.act(verb, task)

    assert "deadline" in problems[0].detail


async def test_c12_a_malformed_payload_that_the_worker_finds_fails_the_task_with_the_explanation(rig: Rig):
    worker, task = await submitted(rig, **BUDGETS, payload={"n": "x"})
    run = await worker.begin()
    explanation = "n: Input should be a valid integer, unable to parse 'x'"

    failed = await worker.exception(run, "malformed-payload", error=explanation, traceback="Traceback …")

    assert (failed["status"], failed["reason"], failed["error"]) == ("failed", "malformed-payload", explanation)
    assert await short(rig, task) == ("failed", "malformed-payload", 0, 0)
    [ended] = await rig.root.runs(task)
    assert (ended["error"], ended["traceback"]) == (explanation, "Traceback …")
    rig.advance(3600)
    await rig.promote()
    await worker.heartbeat()
    assert await worker.claim() == []


async def test_c12_a_malformed_payload_may_be_told_before_the_start(rig: Rig):
    """The worker looks at the payload before it runs anything."""
    worker, task = await submitted(rig, **BUDGETS)

    await worker.exception(await worker.take(), "malformed-payload", error="why")

    assert await short(rig, task) == ("failed", "malformed-payload", 0, 0)


async def test_c12_a_payload_that_the_schema_forbids_never_becomes_a_task(rig: Rig):
    await rig.root.register_job(schema={"type": "object", "properties": {"n": {"type": "integer"}}})

    with refused("invalid-payload", 422) as problems:
        await rig.root.submit(payload={"n": "x"})

    assert "n" in problems[0].detail
    assert (await rig.root.job())["counts"].get("pending", 0) == 0

"""Steps are kept, tasks sleep and wait for messages, through the engine and on both databases."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.conftest import Shop, two_shops
from treadle.wire.ids import TaskId
from treadle.wire.status import Outcome, Reason, Status
from treadle.wire.steps import MOST_DATA, MOST_RESULT, MOST_WAITING
from treadle_server.access.principal import Principal
from treadle_server.domain.steps import Message, Step
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import (
    Edit,
    PromoteDue,
    Receive,
    ReportMany,
    ReportRun,
    RunReport,
    SendMessage,
    StepReport,
)
from treadle_server.errors import (
    Forbidden,
    InvalidTaskTransition,
    StaleRun,
    TaskConflict,
    TooManyRequests,
    ValidationFailed,
)
from treadle_server.store.read import runs as read_runs
from treadle_server.store.read import steps as read_steps

pytestmark = pytest.mark.anyio


async def begun(shop: Shop, **details: Any) -> Task:
    worker = await shop.worker()
    await shop.submit(**details)
    return await began_again(shop, worker)


async def began_again(shop: Shop, worker: str) -> Task:
    [claimed] = await shop.claim(worker)
    return await shop.report(claimed, "started")


async def keep(shop: Shop, task: Task, name: str, result: object = None, n: int = 0, **details: Any) -> Task:
    told = StepReport(name=name, occurrence=n, function=details.pop("function", name), seconds=0.5)
    return await shop.report(task, "step", step=told, result=json.dumps(result), **details)


async def sleep(shop: Shop, task: Task, seconds: float, n: int = 0) -> Task:
    return await shop.report(task, "suspended", step=StepReport(name="sleep", occurrence=n, seconds=seconds))


async def wait_for(shop: Shop, task: Task, name: str, seconds: float = 60, n: int = 0) -> Task:
    told = StepReport(name=name, occurrence=n, seconds=seconds, receives=True)
    return await shop.report(task, "suspended", step=told)


async def send(shop: Shop, task: Task, name: str, data: object, key: str = "m", **who: Any) -> tuple[Message, bool]:
    principal = who.get("principal", shop.principal)
    command = SendMessage(principal=principal, task_id=task.id, name=name, id=key, data=json.dumps(data))
    return await shop.engine.run(command)


async def receive(shop: Shop, task: Task, name: str, n: int = 0) -> Step | None:
    report = RunReport(kind="receive", step=StepReport(name=name, occurrence=n, receives=True))
    asked = ReportRun(
        principal=shop.principal, worker_id=task.worker_id, task_id=task.id, run_id=task.run_id, report=report
    )
    return await shop.engine.run(Receive(asked))


async def kept(shop: Shop, task: Task) -> list[tuple[str, int, Any]]:
    async with shop.engine.store.read() as connection:
        found = await read_steps.of_task(connection, task.seq, first=0, most=500)
    assert len(found) == (await shop.get(task.id)).steps
    return [(step.name, step.occurrence, None if step.result is None else json.loads(step.result)) for step in found]


async def test_a_kept_step_is_a_sign_of_life_and_stays_with_the_task_over_its_runs(shop: Shop, clock: Any) -> None:
    task = await begun(shop, options={"max_retries": 1, "retry_base": 0.0})
    clock.advance(30)

    after = await keep(shop, task, "charge", {"b": 1, "a": [1.0, None]})
    again = await shop.report(task, "failed", error="x")

    assert after.taken_until == clock.now() + timedelta(seconds=60)
    assert (again.status, again.steps) == (Status.PENDING, 1)
    assert await kept(shop, task) == [("charge", 0, {"b": 1, "a": [1.0, None]})]


async def test_the_same_step_twice_is_one_and_another_result_is_refused(shop: Shop) -> None:
    task = await begun(shop)
    await keep(shop, task, "charge", {"b": 1e2, "a": "é"})
    await keep(shop, task, "zero", -0.0)

    await keep(shop, task, "charge", {"a": "é", "b": 100.0})
    await keep(shop, task, "zero", -0.0)
    with pytest.raises(TaskConflict, match="was kept in run 0"):
        await keep(shop, task, "charge", {"b": 101})
    with pytest.raises(TaskConflict):
        await keep(shop, task, "charge", {"b": 1e2, "a": "é"}, function="refund")

    assert await kept(shop, task) == [("charge", 0, {"b": 100.0, "a": "é"}), ("zero", 0, 0.0)]


async def test_steps_of_one_name_are_told_apart_by_how_often_it_came(shop: Shop) -> None:
    task = await begun(shop)

    for n in range(3):
        await keep(shop, task, "page", n, n)
    await keep(shop, task, "merge", 3)

    assert await kept(shop, task) == [("page", 0, 0), ("page", 1, 1), ("page", 2, 2), ("merge", 0, 3)]


async def test_g3_a_stale_run_s_step_is_refused_and_changes_nothing(shop: Shop, clock: Any) -> None:
    first = await begun(shop, options={"max_retries": 1, "retry_base": 0.0})
    await shop.report(first, "failed", error="x")
    second = await began_again(shop, shop_worker(first))

    with pytest.raises(StaleRun):
        await keep(shop, first, "charge", 1)
    with pytest.raises(StaleRun):
        await sleep(shop, first, 5)
    with pytest.raises(StaleRun):
        await receive(shop, first, "approved")

    assert await kept(shop, second) == []
    assert (await shop.get(second.id)).status is Status.RUNNING


def shop_worker(task: Task) -> str:
    assert task.worker_id is not None
    return task.worker_id


async def test_a_bad_step_among_many_reports_harms_itself_alone(shop: Shop) -> None:
    task = await begun(shop)
    steps = [
        RunReport(kind="step", step=StepReport(name="large"), result=json.dumps("x" * MOST_RESULT)),
        RunReport(kind="step"),
        RunReport(kind="step", step=StepReport(name="fine"), result="1"),
    ]
    many = ReportMany(
        principal=shop.principal, worker_id=task.worker_id, reports=[(task.id, task.run_id, one) for one in steps]
    )

    refused = await shop.engine.run(many)

    assert sorted(refused) == [0, 1]
    assert "artifact" in str(refused[0])
    assert await kept(shop, task) == [("fine", 0, 1)]


async def test_a_task_keeps_so_many_steps_and_no_more(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle_server.domain.steps.MOST_STEPS", 2)
    task = await begun(shop)
    await keep(shop, task, "page", 0)
    await keep(shop, task, "page", 1, 1)

    with pytest.raises(ValidationFailed, match="at most 2 steps"):
        await keep(shop, task, "page", 2, 2)
    with pytest.raises(ValidationFailed, match="at most 2 steps"):
        await sleep(shop, task, 2)

    assert (await shop.get(task.id)).status is Status.RUNNING
    assert len(await kept(shop, task)) == 2


async def test_a_task_sleeps_without_a_run_and_goes_on_when_its_time_has_come(shop: Shop, clock: Any) -> None:
    task = await begun(shop, options={"max_retries": 0, "max_requeues": 0})

    asleep = await sleep(shop, task, 3600)
    clock.advance(3599)
    early = await shop.engine.run(PromoteDue())
    clock.advance(1)
    woken = await shop.engine.run(PromoteDue())
    again = await began_again(shop, shop_worker(task))
    done = await shop.report(again, "completed", result="1")

    assert (asleep.status, asleep.reason, asleep.taken_until, asleep.next_retry_at) == (
        Status.SCHEDULED,
        Reason.SUSPENDED,
        None,
        None,
    )
    assert (early, woken, again.run_id, again.reason) == (0, 1, 1, None)
    assert (done.status, done.retry_count, done.requeue_count) == (Status.COMPLETED, 0, 0)
    async with shop.engine.store.read() as connection:
        outcomes = [(run.status, run.reason) for run in await read_runs.of_task(connection, done)]
    assert outcomes == [(Outcome.SUSPENDED, Reason.SUSPENDED), (Outcome.COMPLETED, None)]


async def test_the_same_suspension_twice_is_one_and_another_is_stale(shop: Shop) -> None:
    task = await begun(shop)
    await sleep(shop, task, 60)

    await sleep(shop, task, 60)
    with pytest.raises(StaleRun):
        await sleep(shop, task, 61)

    assert await kept(shop, task) == [("sleep", 0, None)]


async def test_a_wait_by_a_step_that_is_kept_already_is_refused(shop: Shop) -> None:
    task = await begun(shop)
    await keep(shop, task, "sleep", 1)

    with pytest.raises(TaskConflict, match="read the kept steps"):
        await sleep(shop, task, 60)

    assert (await shop.get(task.id)).status is Status.RUNNING


async def test_a_sleeper_keeps_its_target_and_no_slot(shop: Shop, clock: Any) -> None:
    worker = await shop.worker(concurrency=1)
    first, _ = await shop.submit(2, target="cam-1")
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    await sleep(shop, claimed, 60)
    [other] = await shop.submit()

    taken = await shop.claim(worker, most=2)
    clock.advance(60)
    await shop.engine.run(PromoteDue())
    for task in taken:
        await shop.run(task)
    following = await shop.claim(worker)

    assert [task.id for task in taken] == [other.id]
    assert [task.id for task in following] == [first.id]


async def test_paused_while_asleep_it_resumes_waiting_with_its_due_time(shop: Shop, clock: Any) -> None:
    task = await begun(shop)
    asleep = await sleep(shop, task, 60)
    await shop.steer(task, "pause")
    clock.advance(30)

    resumed = await shop.steer(task, "resume")
    clock.advance(30)
    await shop.engine.run(PromoteDue())
    again = await began_again(shop, shop_worker(task))

    assert (resumed.status, resumed.due_at, resumed.reason) == (Status.SCHEDULED, asleep.due_at, Reason.SUSPENDED)
    assert again.run_id == 1


async def test_paused_before_it_sleeps_it_is_paused_and_sleeps_after_the_resume(shop: Shop, clock: Any) -> None:
    task = await begun(shop)
    await shop.steer(task, "pause")

    paused = await sleep(shop, task, 60)
    resumed = await shop.steer(task, "resume")

    assert (paused.status, paused.cancel_requested) == (Status.PAUSED, False)
    assert (resumed.status, resumed.due_at) == (Status.SCHEDULED, clock.now() + timedelta(seconds=60))
    assert resumed.reason is Reason.SUSPENDED


async def test_an_edit_of_its_time_wakes_a_sleeper(shop: Shop) -> None:
    task = await begun(shop)
    await sleep(shop, task, 3600)

    woken = await shop.engine.run(Edit(principal=shop.principal, task_id=task.id, changes={"delay": 0.0}))

    assert (woken.status, woken.reason) == (Status.PENDING, None)


async def edit_time(shop: Shop, task: Task, **time: Any) -> Task:
    return await shop.engine.run(Edit(principal=shop.principal, task_id=task.id, changes=time))


async def ends(shop: Shop, task: Task) -> list[Any]:
    async with shop.engine.store.read() as connection:
        return [step.until for step in await read_steps.of_task(connection, task.seq, first=0, most=500)]


@pytest.mark.parametrize("wait", [sleep, lambda shop, task, seconds: wait_for(shop, task, "approved", seconds)])
async def test_an_edit_of_its_time_moves_the_end_of_what_a_task_waits_by(shop: Shop, clock: Any, wait: Any) -> None:
    """Sooner or later, and an instant that is past ends it now; what is due already waits by it as well."""
    task = await begun(shop)
    await wait(shop, task, 3600)
    clock.advance(5)
    now = clock.now()

    for time, until in (
        ({"delay": 7200.0}, now + timedelta(hours=2)),
        ({"scheduled_at": now - timedelta(days=1)}, now),
        ({"delay": 60.0}, now + timedelta(seconds=60)),
    ):
        await edit_time(shop, task, **time)
        assert await ends(shop, task) == [until]


async def test_an_edit_of_the_time_of_what_waits_by_no_step_leaves_its_steps(shop: Shop, clock: Any) -> None:
    task = await begun(shop, options={"max_retries": 1, "retry_base": 60.0})
    await wait_for(shop, task, "approved", 0)
    again = await began_again(shop, shop_worker(task))
    ended = await ends(shop, task)
    await shop.report(again, "failed", error="x")
    clock.advance(5)

    await edit_time(shop, task, delay=0.0)

    assert await ends(shop, task) == ended


async def test_a_message_wakes_the_task_that_waits_for_it(shop: Shop, clock: Any) -> None:
    task = await begun(shop)
    waiting = await wait_for(shop, task, "approved", 3600)
    await send(shop, task, "refused", {"by": "eve"})
    still = await shop.get(task.id)
    clock.advance(5)

    message, is_new = await send(shop, task, "approved", {"by": "ann"}, "2")

    after = await shop.get(task.id)
    assert (waiting.status, still.status, after.status, after.reason) == (
        Status.SCHEDULED,
        Status.SCHEDULED,
        Status.PENDING,
        None,
    )
    assert (is_new, message.step, after.due_at) == (True, 0, clock.now())
    assert await kept(shop, task) == [("approved", 0, {"by": "ann"})]


async def test_a_message_for_a_task_that_is_put_in_in_the_same_batch_waits_for_it(shop: Shop) -> None:
    task_id = TaskId("0199f0a2-7c1e-7e07-8f1d-2f6b3c9d7a11")
    sends = [
        SendMessage(principal=shop.principal, task_id=task_id, name="go", id=key, data=json.dumps(key)) for key in "ab"
    ]

    await asyncio.gather(shop.submit(id=task_id), *map(shop.engine.run, sends))

    task = await began_again(shop, await shop.worker())
    assert [step.result for n in (0, 1) if (step := await receive(shop, task, "go", n))] == ['"a"', '"b"']


async def test_messages_that_come_early_wait_and_each_receive_takes_the_oldest(shop: Shop) -> None:
    task = await begun(shop)
    for n in range(4):
        await send(shop, task, "page", n, str(n))

    first, second = await receive(shop, task, "page"), await receive(shop, task, "page", 1)
    repeated = await receive(shop, task, "page")
    suspended = await wait_for(shop, task, "page", n=2)
    again = await began_again(shop, shop_worker(task))
    await receive(shop, again, "page", 3)
    nothing = await receive(shop, again, "page", 4)

    assert first is not None
    assert second is not None
    assert repeated is not None
    assert (first.result, second.result, repeated.result, nothing) == ("0", "1", "0", None)
    assert (suspended.status, suspended.reason) == (Status.PENDING, None)
    assert await kept(shop, task) == [("page", n, n) for n in range(4)]


async def test_a_receive_that_nothing_came_for_is_over_when_the_next_run_begins(shop: Shop, clock: Any) -> None:
    task = await begun(shop)
    await wait_for(shop, task, "approved", 60)
    clock.advance(60)
    await shop.engine.run(PromoteDue())
    again = await began_again(shop, shop_worker(task))

    late, _ = await send(shop, task, "approved", 1)

    assert late.step is None
    assert await kept(shop, task) == [("approved", 0, None)]
    assert (await receive(shop, again, "approved", 1)) is not None


async def test_a_message_that_comes_while_the_task_is_paused_ends_its_wait(shop: Shop) -> None:
    task = await begun(shop)
    await wait_for(shop, task, "approved", 3600)
    await shop.steer(task, "pause")

    await send(shop, task, "approved", 1)
    paused = await shop.get(task.id)
    resumed = await shop.steer(task, "resume")

    assert (paused.status, resumed.status) == (Status.PAUSED, Status.PENDING)
    assert await kept(shop, task) == [("approved", 0, 1)]


@pytest.mark.parametrize("times", [1, 3])
async def test_a_message_ends_the_wait_of_a_task_that_was_settled_meanwhile_and_resumed(shop: Shop, times: int) -> None:
    task = await wait_for(shop, await begun(shop), "approved")
    for _ in range(times):
        await shop.steer(task, "pause")
        await shop.steer(task, "resolve", to=Status.FAILED, error="no")
        await shop.steer(task, "resume")

    await send(shop, task, "approved", "yes")

    assert (await shop.get(task.id)).status is Status.PENDING
    assert await kept(shop, task) == [("approved", 0, "yes")]


async def test_the_same_message_counts_once_and_other_data_is_refused(shop: Shop) -> None:
    task = await begun(shop)
    _, first = await send(shop, task, "approved", {"a": 1, "b": 2})

    _, second = await send(shop, task, "approved", {"b": 2, "a": 1})
    with pytest.raises(TaskConflict, match="other data"):
        await send(shop, task, "approved", {"a": 2})
    _, of_another_name = await send(shop, task, "refused", {"a": 2})

    assert (first, second, of_another_name) == (True, False, True)
    assert (await receive(shop, task, "approved")) is not None
    assert (await receive(shop, task, "approved", 1)) is None


async def test_a_task_that_has_ended_takes_no_messages_but_knows_those_that_it_had(shop: Shop) -> None:
    task = await begun(shop)
    await send(shop, task, "approved", 1)
    await shop.report(task, "completed")

    _, is_new = await send(shop, task, "approved", 1)
    with pytest.raises(InvalidTaskTransition, match="completed"):
        await send(shop, task, "approved", 2, "other")

    assert not is_new


async def test_messages_are_limited_in_size_and_number(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle_server.domain.steps.MOST_WAITING", 2)
    task = await begun(shop)
    with pytest.raises(ValidationFailed, match="at most"):
        await send(shop, task, "a", "x" * MOST_DATA)
    await send(shop, task, "a", 1, "1")
    await send(shop, task, "b", 2, "2")

    with pytest.raises(TooManyRequests):
        await send(shop, task, "a", 3, "3")
    await receive(shop, task, "a")
    _, is_new = await send(shop, task, "a", 3, "3")

    assert is_new
    assert MOST_WAITING == 1000


async def test_messages_are_sent_by_who_may_steer_the_task_and_by_its_own_run(shop: Shop) -> None:
    task = await begun(shop)
    run = Principal("w", run=(task.id, task.run_id), scopes=frozenset({f"queue:claim-task:{task.id}/{task.run_id}"}))
    steerer = Principal("s", scopes=frozenset({"queue:control-task:@global"}))

    with pytest.raises(Forbidden):
        await send(shop, task, "a", 1, principal=Principal("other"))
    for n, principal in enumerate((run, steerer)):
        await send(shop, task, "a", 1, str(n), principal=principal)

    assert (await receive(shop, task, "a", 1)) is not None


async def test_a_resume_keeps_steps_and_a_rerun_clears_them_and_all_messages(shop: Shop) -> None:
    task = await begun(shop)
    await keep(shop, task, "charge", 1)
    await send(shop, task, "approved", 1)
    await shop.report(task, "exception", reason=Reason.INTERNAL_ERROR)

    resumed = await shop.steer(task, "resume")
    again = await began_again(shop, shop_worker(task))
    await shop.report(again, "completed")
    rerun = await shop.steer(task, "rerun")
    anew = await began_again(shop, shop_worker(task))

    assert (resumed.steps, rerun.steps) == (1, 0)
    assert await kept(shop, task) == []
    assert (await receive(shop, anew, "approved")) is None


@pytest.mark.parametrize("end", ["completed", "failed"])
async def test_a_rerun_that_names_a_version_clears_steps_and_messages_too(shop: Shop, end: str) -> None:
    task = await begun(shop, options={"max_retries": 0})
    await keep(shop, task, "charge", 1)
    await send(shop, task, "approved", 1)
    ended = await shop.report(task, end)

    rerun = await shop.steer(task, "rerun", if_version=ended.version)
    anew = await began_again(shop, shop_worker(task))

    assert rerun.steps == 0
    assert await kept(shop, task) == []
    assert (await receive(shop, anew, "approved")) is None


async def test_a_rerun_from_a_step_keeps_what_came_before_it_and_begins_budgets_anew(shop: Shop) -> None:
    task = await begun(shop, options={"budget": 10.0, "max_retries": 1, "retry_base": 0.0})
    await keep(shop, task, "fetch", 1)
    await send(shop, task, "approved", "yes")
    await keep(shop, task, "charge", 2)
    await receive(shop, task, "approved")
    await keep(shop, task, "charge", 3, 1)
    await shop.report(task, "checkpoint", checkpoint="7")
    await shop.report(task, "failed", error="x", usage=8.0)
    last = await began_again(shop, shop_worker(task))
    await shop.report(last, "failed", error="x", usage=1.0)

    rerun = await shop.steer(task, "rerun", from_step="charge")

    again = await began_again(shop, shop_worker(task))
    assert await kept(shop, task) == [("fetch", 0, 1)]
    assert (rerun.checkpoint, rerun.usage, rerun.retry_count, rerun.steps) == (None, None, 0, 1)
    # What the deleted steps had received is received once more.
    assert (await receive(shop, again, "approved")) is not None


async def test_a_rerun_from_a_step_that_is_not_kept_changes_nothing(shop: Shop) -> None:
    task = await begun(shop)
    await keep(shop, task, "charge", 2)
    done = await shop.report(task, "completed")

    with pytest.raises(
        ValidationFailed, match=f"no step 'refund': `treadle task {task.id}`, .* names the 1 step it keeps"
    ):
        await shop.steer(task, "rerun", from_step="refund")

    assert (await shop.get(task.id)).version == done.version
    assert await kept(shop, task) == [("charge", 0, 2)]


async def test_a_rerun_from_a_step_of_a_task_that_keeps_none_says_so(shop: Shop) -> None:
    task = await begun(shop)
    await shop.report(task, "completed")

    with pytest.raises(ValidationFailed, match="it keeps none; rerun it from its start"):
        await shop.steer(task, "rerun", from_step="refund")


async def test_a_rerun_that_undoes_a_cancel_keeps_messages_that_came_early(shop: Shop) -> None:
    [task] = await shop.submit()
    await send(shop, task, "approved", 1)
    cancelled = await shop.steer(task, "cancel")

    await shop.steer(task, "rerun", if_version=cancelled.version)

    again = await began_again(shop, await shop.worker())
    assert (await receive(shop, again, "approved")) is not None


async def test_a_run_past_its_budget_does_not_go_to_sleep(shop: Shop) -> None:
    task = await begun(shop, options={"budget": 1.0})

    ended = await shop.report(task, "suspended", step=StepReport(name="sleep", seconds=60), usage=2.0)

    assert (ended.status, ended.reason, ended.steps) == (Status.FAILED, Reason.BUDGET_EXCEEDED, 0)
    assert await kept(shop, task) == []


@pytest.mark.postgres
async def test_g11_steps_and_messages_over_two_servers(postgres_database: str) -> None:
    async with two_shops(postgres_database) as (one, other):
        worker = await one.worker()
        [task] = await one.submit()
        claimed = await began_again(one, worker)
        await keep(one, claimed, "charge", {"a": 1})
        await keep(other, claimed, "charge", {"a": 1})
        await wait_for(other, claimed, "approved")

        _, is_new = await send(one, task, "approved", {"by": "ann"})
        _, twice = await send(other, task, "approved", {"by": "ann"})

        again = await began_again(other, worker)
        assert (is_new, twice, again.run_id, again.steps) == (True, False, 1, 2)
        assert await kept(one, task) == [("charge", 0, {"a": 1}), ("approved", 0, {"by": "ann"})]

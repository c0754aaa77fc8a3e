"""F2: tasks that wait for tasks, through the engine, on both databases."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.conftest import Shop, two_shops
from treadle.wire.ids import TaskId
from treadle.wire.status import Reason, Status
from treadle_server.access.principal import Principal
from treadle_server.domain.dependencies import Need
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Edit, MissDeadlines, PromoteDue, Steer, Submission, Submit, TellWaiters
from treadle_server.engine.commands import dependants as module
from treadle_server.errors import TaskNotFound

pytestmark = pytest.mark.anyio


async def put(shop: Shop, *needs: Task, policy: str | None = None, **details: Any) -> Task:
    """Submit a task that waits for others, each under a name."""
    waits = [Need(task.id, [(f"d{i}", None)]) for i, task in enumerate(needs)]
    [task] = await shop.submit(needs=waits, on_dependency_failure=policy, **details)
    return task


async def tell(shop: Shop) -> None:
    """Let all follow that wait for what has ended, as the service does."""
    for _ in range(1000):
        if not await shop.engine.run(TellWaiters()):
            return
    raise AssertionError("there is no end to what is to be told")


async def end(shop: Shop, task: Task, kind: str = "completed", **details: Any) -> Task:
    """Have a pending task claimed and reported."""
    worker = shop.workers[0] if shop.workers else await shop.worker()
    shop.workers[:] = [worker]
    claimed = {one.id: one for one in await shop.claim(worker, 100)}
    done = await shop.run(claimed.pop(task.id), kind, **details)
    for other in claimed.values():
        await shop.report(other, "returned")
    await tell(shop)
    return done


async def statuses(shop: Shop, *tasks: Task) -> list[str]:
    return [(await shop.get(task.id)).status.value for task in tasks]


async def test_f2_a_task_is_blocked_until_all_that_it_waits_for_have_completed(shop, clock) -> None:
    first, second = await shop.submit(2)
    last = await put(shop, first, second)
    assert (last.status, last.unmet) == (Status.BLOCKED, 2)

    await end(shop, first)
    assert (await shop.get(last.id)).unmet == 1
    assert await statuses(shop, last) == ["blocked"]
    clock.advance(5)
    await end(shop, second)

    now = await shop.get(last.id)
    assert (now.status, now.unmet, now.due_at) == (Status.PENDING, 0, clock.now())


async def test_f2_it_can_not_be_claimed_before_it_was_told(shop) -> None:
    worker = await shop.worker()
    [first] = await shop.submit()
    await put(shop, first)
    [claimed] = await shop.claim(worker, 10)
    await shop.run(claimed)

    assert await shop.claim(worker, 10) == []

    await tell(shop)
    assert len(await shop.claim(worker, 10)) == 1


async def test_f2_a_diamond_runs_from_one_over_two_to_one(shop) -> None:
    [top] = await shop.submit()
    left, right = await put(shop, top), await put(shop, top)
    bottom = await put(shop, left, right)

    await end(shop, top)
    assert await statuses(shop, left, right, bottom) == ["pending", "pending", "blocked"]
    await end(shop, left)
    assert await statuses(shop, right, bottom) == ["pending", "blocked"]
    await end(shop, right)

    assert await statuses(shop, bottom) == ["pending"]


async def test_f2_what_it_waits_for_may_have_completed_already(shop) -> None:
    [first] = await shop.submit()
    await end(shop, first)

    late = await put(shop, first)

    assert (late.status, late.unmet) == (Status.PENDING, 0)


async def test_f2_when_one_fails_those_that_wait_are_cancelled_and_so_on(shop) -> None:
    [first] = await shop.submit()
    second = await put(shop, first)
    third = await put(shop, second)

    await end(shop, first, "failed", error="boom")

    for task in (second, third):
        now = await shop.get(task.id)
        assert (now.status, now.reason) == (Status.CANCELLED, Reason.DEPENDENCY_FAILED)
    assert (await shop.get(second.id)).error == f"it depends on task {first.id}, which is failed"


async def test_f2_one_that_has_failed_already_applies_its_policy_at_once(shop) -> None:
    [first] = await shop.submit()
    await end(shop, first, "failed", error="boom")

    cancelled = await put(shop, first, policy="cancel")
    run, held = await put(shop, first, policy="run"), await put(shop, first, policy="hold")

    assert (cancelled.status, cancelled.reason) == (Status.CANCELLED, Reason.DEPENDENCY_FAILED)
    assert (run.status, run.unmet) == (Status.PENDING, 0)
    assert (held.status, held.unmet) == (Status.BLOCKED, 1)
    assert await statuses(shop, cancelled, run, held) == ["cancelled", "pending", "blocked"]


async def test_f2_run_waits_until_all_have_ended_however(shop) -> None:
    first, second = await shop.submit(2)
    last = await put(shop, first, second, policy="run")

    await end(shop, first, "failed", error="boom")
    assert await statuses(shop, last) == ["blocked"]
    await shop.steer(second, "cancel")
    await tell(shop)

    assert await statuses(shop, last) == ["pending"]


@pytest.mark.parametrize("verb", ["resume", "rerun", "resolve"])
async def test_f2_hold_waits_until_the_failed_one_is_mended(shop, verb) -> None:
    [first] = await shop.submit()
    last = await put(shop, first, policy="hold")
    await end(shop, first, "failed", error="boom")
    assert await statuses(shop, last) == ["blocked"]

    mended = await shop.steer(first, verb)
    await tell(shop)
    if mended.status is not Status.COMPLETED:
        assert await statuses(shop, last) == ["blocked"]
        await end(shop, mended)

    assert await statuses(shop, last) == ["pending"]


async def test_f2_a_policy_is_nothing_to_a_task_that_depends_on_none(shop) -> None:
    [first] = await shop.submit()

    changes = {"on_dependency_failure": "run"}
    edited = await shop.engine.run(Edit(principal=shop.principal, task_id=first.id, changes=changes))

    assert edited.on_dependency_failure is None


async def test_f2_a_task_that_waits_is_put_in_paused_and_resumed_in_one_batch(shop) -> None:
    [first] = await shop.submit()
    second = TaskId("0199f0a2-7c1e-7e07-8f1d-2f6b3c9d7a11")
    steers = [Steer(principal=shop.principal, task_id=second, action=action) for action in ("pause", "resume")]

    _, paused, resumed = await asyncio.gather(
        put(shop, first, id=second), *(shop.engine.run(steer) for steer in steers)
    )

    assert paused is resumed
    assert (resumed.status, resumed.unmet) == (Status.BLOCKED, 1)
    await end(shop, first)
    assert (await shop.get(second)).status is Status.PENDING


async def test_f2_a_policy_that_is_changed_in_the_batch_that_puts_the_task_in_has_its_effect_at_once(shop) -> None:
    first, open_one = await shop.submit(2)
    await shop.steer(first, "cancel")
    second = TaskId("0199f0a2-7c1e-7e07-8f1d-2f6b3c9d7a11")
    edit = Edit(principal=shop.principal, task_id=second, changes={"on_dependency_failure": "cancel"})

    await asyncio.gather(put(shop, first, open_one, id=second, policy="run"), shop.engine.run(edit))

    now = await shop.get(second)
    assert (now.status, now.reason) == (Status.CANCELLED, Reason.DEPENDENCY_FAILED)


async def test_f2_a_task_waits_again_for_what_runs_again_in_the_batch_that_put_it_in(shop) -> None:
    [first] = await shop.submit()
    await end(shop, first)
    second = TaskId("0199f0a2-7c1e-7e07-8f1d-2f6b3c9d7a11")
    steers = [(first.id, "rerun"), (second, "cancel"), (second, "rerun")]
    commands = [Steer(principal=shop.principal, task_id=task_id, action=action) for task_id, action in steers]

    await asyncio.gather(put(shop, first, id=second), *map(shop.engine.run, commands))

    now = await shop.get(second)
    assert (now.status, now.unmet) == (Status.BLOCKED, 1)
    await end(shop, first)
    assert await statuses(shop, now) == ["pending"]


async def test_f2_a_dependency_that_runs_again_changes_nothing_that_has_begun(shop) -> None:
    [first] = await shop.submit()
    second = await put(shop, first)
    await end(shop, first)
    assert await statuses(shop, second) == ["pending"]

    await shop.steer(first, "rerun")
    await tell(shop)

    assert await statuses(shop, second) == ["pending"]


async def test_f2_who_still_waits_for_others_waits_for_it_again(shop) -> None:
    first, second = await shop.submit(2)
    last = await put(shop, first, second)
    await end(shop, first)

    again = await shop.steer(first, "rerun")
    await tell(shop)
    await end(shop, second)
    assert await statuses(shop, last) == ["blocked"]
    await end(shop, again)

    assert await statuses(shop, last) == ["pending"]


async def test_f2_in_the_middle_a_rerun_waits_for_what_runs_again_before_it(shop) -> None:
    [first] = await shop.submit()
    second = await put(shop, first)
    third = await put(shop, second)
    for task in (first, second, third):
        await end(shop, task)

    first_again = await shop.steer(first, "rerun")
    assert (await shop.steer(second, "rerun")).status is Status.BLOCKED
    assert (await shop.steer(third, "rerun")).status is Status.BLOCKED
    await tell(shop)
    await end(shop, first_again)
    assert await statuses(shop, second, third) == ["pending", "blocked"]
    await end(shop, second)

    assert await statuses(shop, third) == ["pending"]


async def test_f2_a_rerun_whose_dependencies_stand_completed_is_pending(shop) -> None:
    [first] = await shop.submit()
    second = await put(shop, first)
    await end(shop, first)
    await end(shop, second)

    assert (await shop.steer(second, "rerun")).status is Status.PENDING


async def test_f2_after_a_failure_was_mended_what_it_cancelled_runs_again(shop) -> None:
    [first] = await shop.submit()
    second = await put(shop, first)
    await end(shop, first, "failed", error="boom")

    assert (await shop.steer(second, "rerun")).status is Status.BLOCKED
    await tell(shop)
    assert await statuses(shop, second) == ["blocked"]
    again = await shop.steer(first, "rerun")
    await tell(shop)
    await end(shop, again)

    assert await statuses(shop, second) == ["pending"]


async def test_f2_a_blocked_task_is_paused_and_waits_on_when_it_is_resumed(shop) -> None:
    first, second = await shop.submit(2)
    waits, ready = await put(shop, first), await put(shop, second)
    for task in (waits, ready):
        assert (await shop.steer(task, "pause")).status is Status.PAUSED
    await end(shop, second)

    assert (await shop.steer(waits, "resume")).status is Status.BLOCKED
    assert (await shop.steer(ready, "resume")).status is Status.PENDING
    await end(shop, first)
    assert await statuses(shop, waits) == ["pending"]


async def test_f2_a_paused_one_is_cancelled_with_what_it_waits_for(shop) -> None:
    [first] = await shop.submit()
    last = await put(shop, first)
    await shop.steer(last, "pause")

    await end(shop, first, "failed", error="boom")

    assert (await shop.get(last.id)).reason is Reason.DEPENDENCY_FAILED


@pytest.mark.parametrize(("kind", "status"), [("failed", "cancelled"), ("completed", "pending")])
async def test_f2_a_rerun_that_is_paused_while_it_waits_follows_what_it_waits_for(shop, kind, status) -> None:
    [first] = await shop.submit()
    last = await put(shop, first)
    await end(shop, first)
    await end(shop, last)
    await shop.steer(first, "rerun")
    assert (await shop.steer(last, "rerun")).status is Status.BLOCKED
    await shop.steer(last, "pause")

    await end(shop, first, kind)

    if kind == "completed":
        await shop.steer(last, "resume")
    assert await statuses(shop, last) == [status]


async def test_f2_a_blocked_task_is_cancelled_and_its_deadline_holds(shop, clock) -> None:
    [first] = await shop.submit()
    gone = await put(shop, first)
    late = await put(shop, first, deadline=clock.now() + timedelta(seconds=5))
    after = await put(shop, late)
    assert (await shop.steer(gone, "cancel")).status is Status.CANCELLED
    clock.advance(6)
    assert await shop.engine.run(MissDeadlines()) == 1
    await tell(shop)

    assert await statuses(shop, gone, late, after) == ["cancelled", "failed", "cancelled"]


async def test_f2_its_own_time_holds_when_that_is_later(shop, clock) -> None:
    [first] = await shop.submit()
    last = await put(shop, first, delay=60)

    await end(shop, first)
    assert await statuses(shop, last) == ["scheduled"]
    clock.advance(60)
    await shop.engine.run(PromoteDue())

    assert await statuses(shop, last) == ["pending"]


async def test_f2_a_unique_key_is_held_while_it_is_blocked(shop) -> None:
    [first] = await shop.submit()
    last = await put(shop, first, unique_key="k")

    again = await put(shop, first, unique_key="k")

    assert again.id == last.id


async def test_f2_many_follow_in_portions_and_each_once(shop, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST", 7)
    first, other = await shop.submit(2)
    waiting = [await put(shop, first) for _ in range(20)]
    beside = await put(shop, other)
    worker = await shop.worker()
    for claimed in await shop.claim(worker, 2):
        await shop.run(claimed)

    await shop.engine.run(TellWaiters())
    # The one with few behind it is not kept waiting by the one with many.
    assert await statuses(shop, beside) == ["pending"]
    assert (await statuses(shop, *waiting)).count("pending") == 3
    await tell(shop)

    assert set(await statuses(shop, *waiting)) == {"pending"}


async def test_f2_one_waits_for_many(shop, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST", 5)
    many = await shop.submit(30)
    last = await put(shop, *many)
    worker = await shop.worker()
    for _ in range(29):
        [claimed] = await shop.claim(worker)
        await shop.run(claimed)
    await tell(shop)
    assert (await shop.get(last.id)).unmet == 1
    [claimed] = await shop.claim(worker, 2)
    await shop.run(claimed)
    await tell(shop)

    assert await statuses(shop, last) == ["pending"]


async def test_f2_what_is_not_seen_is_not_depended_on(shop) -> None:
    await shop.register("noop", room="lab")
    [secret] = await shop.submit(job="lab:tasks:noop", room="lab")
    stranger = Principal("eve", scopes=frozenset({"queue:create-task:@global/*"}))
    item = Submission(job_name=shop.job, payload="{}", content_hash=b"x", needs=[Need(secret.id, [("d", None)])])

    with pytest.raises(TaskNotFound):
        await shop.engine.run(Submit(principal=stranger, room="@global", items=[item]))
    item.needs = [Need(TaskId("00000000-0000-0000-0000-000000000000"), [("d", None)])]
    with pytest.raises(TaskNotFound):
        await shop.engine.run(Submit(principal=shop.principal, room="@global", items=[item]))


@pytest.mark.postgres
async def test_g11_what_one_server_ended_and_did_not_tell_another_tells(postgres_database, clock) -> None:
    async with two_shops(postgres_database, clock) as (here, there):
        [first] = await here.submit()
        waiting = [await put(there, first) for _ in range(3)]
        worker = await here.worker()
        [claimed] = await here.claim(worker)
        await here.run(claimed)

        await tell(there)

        assert set(await statuses(here, *waiting)) == {"pending"}


@pytest.mark.postgres
async def test_g11_two_servers_tell_the_ends_of_what_one_task_waits_for(postgres_database, clock) -> None:
    async with two_shops(postgres_database, clock) as (here, there):
        many = await here.submit(40)
        waiting = [await put(there, *many) for _ in range(5)]
        for shop in (here, there):
            worker = await shop.worker()
            for _ in range(20):
                [claimed] = await shop.claim(worker)
                await shop.run(claimed)
        await asyncio.gather(*(shop.engine.run(TellWaiters()) for shop in (here, there) for _ in range(20)))
        await tell(here)

        assert set(await statuses(here, *waiting)) == {"pending"}
        assert {(await here.get(task.id)).unmet for task in waiting} == {0}

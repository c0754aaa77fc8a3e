"""What a task uses over all of its runs (L4), and who goes first in a target's line (L2)."""

import pytest

from tests.conftest import FakeClock
from tests.engine.conftest import Shop
from treadle.wire.ids import RunId, WorkerId
from treadle.wire.status import Reason, Status
from treadle.wire.workers import Renewal
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Beat
from treadle_server.store.read.runs import of_task
from treadle_server.store.read.tasks import get, see

pytestmark = pytest.mark.anyio


async def begun(shop: Shop, worker: WorkerId, **options: object) -> Task:
    if options:
        await shop.submit(options=options)
    [task] = await shop.claim(worker)
    return await shop.report(task, "started")


async def beat(shop: Shop, task: Task, usage: float) -> None:
    assert task.worker_id is not None
    ref = Renewal(task_id=task.id, run_id=RunId(task.run_id), usage=usage)
    await shop.engine.run(Beat(principal=shop.principal, worker_id=task.worker_id, tasks=[ref]))


async def used(shop: Shop, task: Task) -> tuple[float | None, list[float | None]]:
    """Return what the task has used, and each of its runs."""
    async with shop.engine.store.read() as connection:
        now = await shop.get(task.id)
        return now.usage, [run.usage for run in await of_task(connection, now)]


@pytest.mark.parametrize("how", ["beat", "progress", "failed", "paused", "pausing"])
async def test_the_run_that_takes_the_sum_past_the_budget_fails_the_task_l4(shop: Shop, how: str) -> None:
    worker = await shop.worker()
    task = await begun(shop, worker, budget=10.0, max_retries=5, retry_base=0.0)
    await shop.report(task, "failed", error="no", usage=6.0)
    task = await begun(shop, worker)
    await beat(shop, task, 3.0)
    assert await used(shop, task) == (9.0, [6.0, 3.0])
    if how in {"paused", "pausing"}:
        await shop.steer(task, "pause")

    if how in {"beat", "pausing"}:
        await beat(shop, task, 5.0)
    else:
        await shop.report(task, how, usage=5.0)

    over = await shop.get(task.id)
    assert (over.status, over.reason) == (Status.FAILED, Reason.BUDGET_EXCEEDED)
    assert await used(shop, task) == (11.0, [6.0, 5.0])


async def test_a_pause_a_resume_and_a_lost_worker_refill_nothing_and_a_rerun_starts_from_0_l4(shop: Shop) -> None:
    worker = await shop.worker()
    task = await begun(shop, worker, budget=10.0, max_requeues=5)
    await shop.steer(task, "pause")
    await shop.report(task, "paused", usage=4.0)
    await shop.steer(task, "resume")
    task = await begun(shop, worker)
    await beat(shop, task, 2.0)
    await shop.report(task, "exception", reason=Reason.WORKER_SHUTDOWN)
    task = await begun(shop, worker)
    assert await used(shop, task) == (6.0, [4.0, 2.0, None])
    await shop.report(task, "failed", error="no", usage=3.0)
    await shop.steer(task, "resume")
    task = await begun(shop, worker)
    await shop.report(task, "completed", usage=0.5)
    assert await used(shop, task) == (9.5, [4.0, 2.0, 3.0, 0.5])

    await shop.steer(task, "rerun")
    again = await begun(shop, worker)
    await beat(shop, again, 9.0)

    now = await shop.get(task.id)
    assert (now.status, now.usage) == (Status.RUNNING, 9.0)


async def line(shop: Shop, worker: WorkerId, n: int) -> list[int]:
    """Claim and complete one after another; return the numbers in their payloads."""
    order = []
    for _ in range(n):
        [task] = await shop.claim(worker, 5)
        order.append(task.seq)
        await shop.run(task)
    return order


@pytest.mark.parametrize("is_undo", [False, True])
async def test_a_resumed_task_that_never_ran_goes_first_and_an_undo_gives_its_place_back_l2(
    shop: Shop, is_undo: bool
) -> None:
    worker = await shop.worker()
    [urgent] = await shop.submit(target="robot", options={"priority": 5})
    first, second = await shop.submit(2, target="robot")
    paused = await shop.steer(second, "pause")

    await shop.steer(second, "resume", if_version=paused.version if is_undo else None)

    expected = [urgent.seq, first.seq, second.seq] if is_undo else [second.seq, urgent.seq, first.seq]
    assert await line(shop, worker, 3) == expected


async def test_a_resumed_task_that_had_run_goes_first_l2(shop: Shop) -> None:
    worker = await shop.worker()
    await shop.submit(target="robot")
    [ran] = await shop.claim(worker)
    await shop.report(ran, "started")
    [urgent] = await shop.submit(target="robot", options={"priority": 5})
    await shop.steer(ran, "pause")
    await shop.report(ran, "paused")

    await shop.steer(ran, "resume")

    assert await line(shop, worker, 2) == [ran.seq, urgent.seq]


async def test_a_rerun_of_what_had_run_goes_to_the_back_and_its_old_time_is_forgotten_l2(
    shop: Shop, clock: FakeClock
) -> None:
    worker = await shop.worker()
    [ran] = await shop.submit(target="robot")
    assert await line(shop, worker, 1) == [ran.seq]
    clock.advance(5)
    waiting = await shop.submit(2, target="robot")
    clock.advance(5)

    again = await shop.steer(ran, "rerun")

    assert again.due_at == clock.now()
    assert await line(shop, worker, 3) == [*(task.seq for task in waiting), ran.seq]


async def test_what_an_undo_brings_back_gets_its_place_again_though_it_had_run_l2(shop: Shop, clock: FakeClock) -> None:
    worker = await shop.worker()
    await shop.submit(target="robot", options={"max_requeues": 1})
    [ran] = await shop.claim(worker)
    clock.advance(5)
    await shop.submit(target="robot")
    await shop.report(ran, "exception", reason=Reason.INTERMITTENT_TASK)
    cancelled = await shop.steer(ran, "cancel")

    back = await shop.steer(ran, "rerun", if_version=cancelled.version)

    assert back.due_at == ran.due_at
    assert (await line(shop, worker, 2))[0] == ran.seq


@pytest.mark.parametrize("target", [None, "robot"])
async def test_blocked_by_names_the_tasks_own_hold_until_its_code_has_stopped_l1(
    shop: Shop, target: str | None
) -> None:
    worker = await shop.worker()
    await shop.submit(target=target)
    [task] = await shop.claim(worker)
    await shop.report(task, "started")
    await shop.steer(task, "cancel")
    await shop.steer(task, "rerun")

    async def blockers() -> list[str] | None:
        async with shop.engine.store.read() as connection:
            [seen] = await see(connection, [await get(connection, task.id)])
            return None if seen.blocked is None else seen.blocked.by

    assert await blockers() == [task.id]
    assert await shop.claim(worker) == []
    await shop.report(task, "stopped", run_id=0)
    assert await blockers() is None
    assert [one.id for one in await shop.claim(worker)] == [task.id]

"""A worker that is given up before its lease has ended may still run the code of a target.

It may have begun it without having said so: a run that was never reported as started holds its target like another.
"""

from datetime import timedelta

import pytest

from treadle.wire.ids import WorkerId
from treadle.wire.status import Reason, Status
from treadle_server.access.principal import Principal
from treadle_server.engine.commands import (
    ExpireLeases,
    MissDeadlines,
    ReleaseHolds,
    RemoveWorker,
    RestampPresent,
    ReturnUnstarted,
    SweepWorkers,
)
from treadle_server.engine.engine import Engine
from treadle_server.errors import StaleRun

pytestmark = pytest.mark.anyio


async def _sweep(engine: Engine, principal: Principal, worker: WorkerId) -> None:
    await engine.run(SweepWorkers(timeout=60))


async def _remove(engine: Engine, principal: Principal, worker: WorkerId) -> None:
    await engine.run(RemoveWorker(principal=principal, worker_id=worker))


@pytest.mark.parametrize("lose", [_sweep, _remove], ids=["silent", "removed"])
async def test_g5_a_lost_workers_target_is_held_until_its_lease_ends(shop, clock, lose) -> None:
    worker = await shop.worker()
    [task] = await shop.submit(target="robot", options={"lease_seconds": 600, "max_requeues": 3})
    await shop.submit(target="robot")
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    clock.advance(70)

    await lose(shop.engine, shop.principal, worker)

    lost = await shop.get(task.id)
    assert lost.status is Status.PENDING
    assert lost.reason in {Reason.CLAIM_EXPIRED, Reason.WORKER_SHUTDOWN}
    assert await shop.claim(await shop.worker()) == []
    clock.advance(540)
    await shop.engine.run(ReleaseHolds())
    assert [again.id for again in await shop.claim(await shop.worker())] == [task.id]


async def test_g5_a_lost_workers_word_that_its_code_has_stopped_frees_the_target_at_once(shop, clock) -> None:
    worker = await shop.worker()
    [task] = await shop.submit(target="robot", options={"lease_seconds": 600, "max_requeues": 3})
    [claimed] = await shop.claim(worker)
    started = await shop.report(claimed, "started")
    clock.advance(70)
    await _sweep(shop.engine, shop.principal, worker)

    await shop.report(started, "stopped")

    assert [again.id for again in await shop.claim(await shop.worker())] == [task.id]


async def test_what_has_no_target_is_run_again_as_soon_as_its_worker_is_lost(shop, clock) -> None:
    """T6, G8."""
    worker = await shop.worker()
    [task] = await shop.submit(options={"lease_seconds": 600, "max_requeues": 3})
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    clock.advance(70)

    await _sweep(shop.engine, shop.principal, worker)

    assert [again.id for again in await shop.claim(await shop.worker())] == [task.id]


async def _expire(engine: Engine, principal: Principal, worker: WorkerId) -> None:
    assert await engine.run(ExpireLeases()) == 1


async def _miss(engine: Engine, principal: Principal, worker: WorkerId) -> None:
    assert await engine.run(MissDeadlines()) == 1


@pytest.mark.parametrize(
    "lose", [_sweep, _remove, _expire, _miss], ids=["silent", "removed", "start timeout", "deadline"]
)
async def test_g5_a_run_that_was_never_reported_as_started_holds_its_target_until_its_lease_ends(
    shop, clock, lose
) -> None:
    worker = await shop.worker()
    deadline = shop.engine.clock.now() + timedelta(seconds=65)
    await shop.submit(
        target="robot", deadline=deadline, options={"lease_seconds": 600, "start_timeout": 60, "on_failure": "release"}
    )
    [second] = await shop.submit(target="robot")
    await shop.claim(worker)
    clock.advance(70)

    await lose(shop.engine, shop.principal, worker)

    other = await shop.worker()
    assert await shop.claim(other) == []
    clock.advance(529)
    assert await shop.engine.run(ReleaseHolds()) == 0
    assert await shop.claim(other) == []
    clock.advance(1)
    assert await shop.engine.run(ReleaseHolds()) == 1
    assert [task.id for task in await shop.claim(other)] == [second.id]


async def test_g5_a_task_cancelled_before_its_start_was_reported_holds_its_target_until_its_code_has_stopped(
    shop,
) -> None:
    worker = await shop.worker()
    await shop.submit(target="robot")
    [second] = await shop.submit(target="robot")
    [claimed] = await shop.claim(worker)
    await shop.steer(claimed, "cancel")
    with pytest.raises(StaleRun):
        await shop.report(claimed, "started")

    other = await shop.worker()
    assert await shop.claim(other) == []
    await shop.report(claimed, "stopped")
    assert [task.id for task in await shop.claim(other)] == [second.id]


async def test_g5_a_broken_session_returns_what_was_not_started_but_nothing_with_a_target(shop) -> None:
    """G8 for the rest."""
    worker = await shop.worker()
    [held] = await shop.submit(target="robot")
    [free] = await shop.submit()
    await shop.claim(worker, 2)

    assert await shop.engine.run(ReturnUnstarted(principal=shop.principal, worker_id=worker)) == 1

    assert [(await shop.get(task.id)).status for task in (held, free)] == [Status.CLAIMED, Status.PENDING]


async def _cancel(shop, task, worker: WorkerId) -> None:
    await shop.steer(task, "cancel")


async def _take_away(shop, task, worker: WorkerId) -> None:
    await shop.engine.run(RemoveWorker(principal=shop.principal, worker_id=worker))


@pytest.mark.parametrize("end", [_cancel, _take_away], ids=["cancelled", "worker removed"])
async def test_g5_a_clock_that_was_just_set_ahead_frees_no_target_of_a_run_that_is_ended_l5(shop, clock, end) -> None:
    """Nobody has looked yet whether the clock tells the time: the lease is as long as its worker believes."""
    worker = await shop.worker()
    [task] = await shop.submit(target="robot", options={"max_requeues": 3})
    await shop.submit(target="robot")
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    clock.jump(3600)

    await end(shop, task, worker)

    assert await shop.claim(await shop.worker()) == []
    await shop.engine.run(RestampPresent())
    await shop.engine.run(ReleaseHolds())
    assert await shop.claim(await shop.worker()) == []
    clock.advance(60)
    await shop.engine.run(ReleaseHolds())
    assert len(await shop.claim(await shop.worker())) == 1

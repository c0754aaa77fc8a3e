"""A worker that is given up before its lease has ended may still run the code of a target."""

import pytest

from treadle.wire.ids import WorkerId
from treadle.wire.status import Reason, Status
from treadle_server.engine.commands import ReleaseHolds, RemoveWorker, SweepWorkers
from treadle_server.engine.engine import Engine
from treadle_server.engine.principal import Principal

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

"""What goes back because nobody heard of its start costs nothing, but not for ever: its code may end its workers."""

import pytest

from treadle.wire.ids import WorkerId
from treadle.wire.status import Reason, Status
from treadle.wire.workers import RunRef
from treadle_server.domain.retry import requeue_delay
from treadle_server.engine.commands import PromoteDue, ReturnUnstarted
from treadle_server.engine.commands.beats import Reattach
from treadle_server.engine.commands.hand_back import MOST_UNHEARD, hand_back

pytestmark = pytest.mark.anyio


async def _is_gone(shop, worker: WorkerId, held: list[RunRef]) -> None:
    await shop.engine.run(ReturnUnstarted(principal=shop.principal, worker_id=worker))


async def _is_back(shop, worker: WorkerId, held: list[RunRef]) -> None:
    await shop.engine.run(Reattach(principal=shop.principal, worker_id=worker))


async def _returns(shop, worker: WorkerId, held: list[RunRef]) -> None:
    runs = [(ref.task_id, ref.run_id) for ref in held]
    await shop.engine.run(hand_back(shop.principal, worker, runs))


async def _lives(shop, end, count: int) -> list[int]:
    """Claim a task so often, each time by a worker that then ends so; return what its requeues came to each time."""
    spent = []
    for _ in range(count):
        worker = await shop.worker()
        [claimed] = await shop.claim(worker)
        await end(shop, worker, [RunRef(task_id=claimed.id, run_id=claimed.run_id)])
        spent.append((await shop.get(claimed.id)).requeue_count)
    return spent


@pytest.mark.parametrize("end", [_is_gone, _is_back])
async def test_a_task_whose_claims_are_never_heard_of_costs_requeues_in_the_end_g4_g8(shop, clock, end) -> None:
    [task] = await shop.submit(options={"max_requeues": 2})

    assert await _lives(shop, end, MOST_UNHEARD + 1) == [0] * MOST_UNHEARD + [1]
    assert await _lives(shop, end, 1) == [2]
    clock.advance(requeue_delay(1).total_seconds())
    await shop.engine.run(PromoteDue())
    await _lives(shop, end, 1)

    lost = await shop.get(task.id)
    assert (lost.status, lost.reason, lost.error) == (Status.FAILED, Reason.CLAIM_EXPIRED, "Worker disconnected")


async def test_what_a_worker_hands_back_itself_never_costs_anything(shop) -> None:
    await shop.submit(options={"max_requeues": 2})

    assert await _lives(shop, _returns, 2 * MOST_UNHEARD) == [0] * 2 * MOST_UNHEARD


async def test_runs_that_cost_something_are_not_taken_for_unheard_ones(shop) -> None:
    """Nor are those that its steps explain."""
    await shop.submit(options={"max_retries": 20, "retry_base": 0})
    for _ in range(MOST_UNHEARD + 1):
        [claimed] = await shop.claim(await shop.worker())
        await shop.report(claimed, "started")
        await shop.report(claimed, "failed", error="boom")

    assert await _lives(shop, _is_gone, 1) == [0]

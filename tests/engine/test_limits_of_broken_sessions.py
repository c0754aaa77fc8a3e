"""A worker whose session broke may have begun what it was given without having said so: it counts all the same."""

import pytest

from tests.engine.test_limits import ids, named, set_limit, uses
from treadle.wire.status import Status
from treadle.wire.workers import RunRef
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import ReleaseHolds, ReturnUnstarted
from treadle_server.engine.commands.beats import Reattach
from treadle_server.engine.commands.hand_back import hand_back
from treadle_server.errors import StaleRun

pytestmark = pytest.mark.anyio


async def _broken(shop) -> tuple[Task, Task]:
    """Have the session of a worker break that was given the first of two tasks; return its claim, and the second."""
    worker = await shop.worker()
    [_, second] = await shop.submit(2, limits=named())
    [claimed] = await shop.claim(worker)
    assert await shop.engine.run(ReturnUnstarted(principal=shop.principal, worker_id=worker)) == 1
    return claimed, second


async def test_what_a_broken_session_returns_counts_until_its_code_has_stopped_g8(shop) -> None:
    await set_limit(shop, concurrency=1)
    claimed, _ = await _broken(shop)
    other = await shop.worker()

    assert (await shop.get(claimed.id)).status is Status.PENDING
    assert await shop.claim(other, 2) == []
    with pytest.raises(StaleRun):
        await shop.report(claimed, "started")
    assert await shop.claim(other, 2) == []
    await shop.report(claimed, "stopped")
    assert ids(await shop.claim(other, 2)) == [str(claimed.id)]


async def test_what_a_broken_session_returns_counts_until_its_lease_has_ended(shop, clock) -> None:
    await set_limit(shop, concurrency=1)
    claimed, _ = await _broken(shop)

    clock.advance(59)
    await shop.engine.run(ReleaseHolds())
    assert await uses(shop) == [(0, 1)]
    clock.advance(1)
    await shop.engine.run(ReleaseHolds())
    assert await uses(shop) == []
    assert ids(await shop.claim(await shop.worker(), 2)) == [str(claimed.id)]


@pytest.mark.parametrize("is_held", [False, True])
async def test_a_worker_that_is_back_says_what_it_holds_and_the_rest_takes_no_room(shop, is_held: bool) -> None:
    await set_limit(shop, concurrency=1)
    claimed, _ = await _broken(shop)
    held = [RunRef(task_id=str(claimed.id), run_id=claimed.run_id)] if is_held else []

    back = await shop.engine.run(Reattach(principal=shop.principal, worker_id=claimed.worker_id, held=held))

    assert back.cancel == [(claimed.id, claimed.run_id)] * is_held
    assert await uses(shop) == [(0, 1)] * is_held


async def test_a_worker_that_hands_back_what_was_returned_already_frees_its_room(shop) -> None:
    await set_limit(shop, concurrency=1)
    claimed, _ = await _broken(shop)

    runs = [(claimed.id, claimed.run_id)]
    await shop.engine.run(hand_back(shop.principal, claimed.worker_id, runs))

    assert await uses(shop) == []


async def test_what_a_broken_session_returns_has_spent_its_token(shop) -> None:
    await set_limit(shop, rate=(1, 3600))

    await _broken(shop)

    assert await shop.claim(await shop.worker(), 2) == []

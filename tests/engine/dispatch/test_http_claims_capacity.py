"""Claims over HTTP within the capacity that their worker named (E5, E6); the socket's: `test_dispatcher_waiting.py`."""

import asyncio

import pytest

from tests.engine.conftest import ADMIN
from tests.waiting import until
from treadle.wire.status import Reason, Status

pytestmark = pytest.mark.anyio


async def wait_at_dispatcher(shop, worker, claims: int = 1) -> list["asyncio.Future"]:
    """Return claims of the worker that wait for tasks."""
    waiting = [asyncio.ensure_future(shop.engine.claims.claim(ADMIN, worker, most=10, wait=20)) for _ in range(claims)]
    await until(lambda: len(shop.engine.dispatcher._waiting) >= claims, pause=0)
    return waiting


async def weights(shop, worker, most: int = 10) -> list[int]:
    return [task.weight for task in await shop.claim(worker, most)]


async def test_what_a_worker_claims_weighs_no_more_than_its_concurrency_e5(shop) -> None:
    worker = await shop.worker(concurrency=4)
    for weight in (2, 1, 1, 1):
        await shop.submit(options={"weight": weight})

    assert await weights(shop, worker) == [2, 1, 1]
    assert await weights(shop, worker) == []


async def test_a_worker_that_never_named_its_concurrency_gets_what_it_asks_for_z9(shop) -> None:
    worker = await shop.worker()
    await shop.submit(5, options={"weight": 7})

    assert await weights(shop, worker, 3) == [7, 7, 7]
    assert await weights(shop, worker) == [7, 7]


async def test_what_is_too_heavy_is_left_and_what_does_not_fit_yet_is_waited_for_e5(shop) -> None:
    worker = await shop.worker(concurrency=4)
    await shop.submit(options={"weight": 3})
    [held] = await shop.claim(worker)
    for weight in (5, 2, 1):
        await shop.submit(options={"weight": weight})

    assert await weights(shop, worker) == []
    await shop.run(held)

    assert await weights(shop, worker) == [2, 1]


async def test_with_min_concurrency_more_is_given_only_below_it_e6(shop) -> None:
    worker = await shop.worker(concurrency=4, min_concurrency=2)
    await shop.submit(6)

    first = await shop.claim(worker)
    more = await shop.claim(worker)
    assert (len(first), len(more)) == (1, 1)
    assert await weights(shop, worker) == []
    await shop.run(first[0])

    # The minimum says when it asks, its concurrency how much it gets then.
    assert await weights(shop, worker) == [1, 1, 1]


async def test_what_is_too_heavy_for_all_who_ask_hides_nothing_behind_it_e5(shop) -> None:
    worker = await shop.worker(concurrency=2)
    await shop.submit(5, options={"weight": 3, "priority": 9})
    [light] = await shop.submit()

    assert [task.id for task in await shop.claim(worker)] == [light.id]


async def test_a_waiting_claim_is_answered_when_a_run_makes_room_e5(shop) -> None:
    worker = await shop.worker(concurrency=1)
    first, second = await shop.submit(2)
    [held] = await shop.claim(worker)
    [claim] = await wait_at_dispatcher(shop, worker)
    await shop.get(second.id)
    assert not claim.done()

    await shop.run(held)

    async with asyncio.timeout(20):
        assert [task.id for task in await claim] == [second.id]
    assert first.id == held.id


async def test_two_claims_of_one_worker_at_once_share_its_capacity_e5(shop) -> None:
    worker = await shop.worker(concurrency=3)
    claims = await wait_at_dispatcher(shop, worker, 2)

    await shop.submit(5)

    async with asyncio.timeout(20):
        given = await asyncio.gather(*claims)
    assert sorted(len(tasks) for tasks in given) == [1, 2]
    assert await weights(shop, worker) == []


async def test_a_run_whose_code_is_only_stopping_still_weighs_e5(shop) -> None:
    worker = await shop.worker(concurrency=2)
    first, _ = await shop.submit(2, options={"weight": 2})
    [held] = await shop.claim(worker)
    await shop.report(held, "started")
    await shop.steer(held, "cancel")

    assert await weights(shop, worker) == []
    await shop.report(held, "stopped")

    assert await weights(shop, worker) == [2]
    assert (await shop.get(first.id)).status is Status.CANCELLED


async def test_a_run_that_failed_while_its_code_runs_on_still_weighs_until_it_has_stopped_t5(shop) -> None:
    """A thread that ignores its timeout keeps its slot; its task is tried again elsewhere meanwhile."""
    worker, other = await shop.worker(concurrency=1), await shop.worker(concurrency=1)
    [first] = await shop.submit(options={"max_retries": 1, "retry_base": 0})
    [held] = await shop.claim(worker)
    [second] = await shop.submit()
    await shop.run(held, "failed", reason=Reason.TIMEOUT, code_runs=True)
    [waiting] = await wait_at_dispatcher(shop, worker)

    again = await shop.claim(other)
    assert not waiting.done()
    await shop.report(held, "failed", reason=Reason.TIMEOUT, code_runs=True)
    await shop.get(second.id)
    assert not waiting.done()
    await shop.report(held, "stopped")

    assert [(task.id, task.run_id) for task in again] == [(first.id, 1)]
    async with asyncio.timeout(20):
        assert [task.id for task in await waiting] == [second.id]

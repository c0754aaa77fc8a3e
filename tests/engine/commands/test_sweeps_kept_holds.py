"""Runs that the server ends while their code may go on: it keeps its target until it has stopped (G5, L4, L6)."""

import pytest

from treadle.wire.status import Reason, Status
from treadle_server.engine.commands import ExpireLeases

pytestmark = pytest.mark.anyio

RELEASED = {"on_failure": "release", "timeout": 10, "budget": 1}


async def two_of_one_target(shop):
    """Start the first of a target's two tasks; return it and the other one."""
    worker = await shop.worker()
    first, second = await shop.submit(2, target="printer", options=RELEASED)
    [run] = await shop.claim(worker, 2)
    assert run.id == first.id
    return await shop.report(run, "started"), second


async def check_held_until_it_has_stopped(shop, run, second) -> None:
    other = await shop.worker()
    assert await shop.claim(other) == []

    await shop.report(run, "stopped")

    assert [task.id for task in await shop.claim(other)] == [second.id]


async def test_g5_a_run_past_its_timeout_keeps_its_target_until_its_code_has_stopped(shop, clock) -> None:
    run, second = await two_of_one_target(shop)
    clock.advance(12.1)

    assert await shop.engine.run(ExpireLeases()) == 1

    ended = await shop.get(run.id)
    assert (ended.status, ended.reason) == (Status.FAILED, Reason.TIMEOUT)
    await check_held_until_it_has_stopped(shop, run, second)


async def test_g5_a_run_over_its_budget_keeps_its_target_until_its_code_has_stopped_l4(shop) -> None:
    run, second = await two_of_one_target(shop)

    ended = await shop.report(run, "progress", usage=2)

    assert (ended.status, ended.reason) == (Status.FAILED, Reason.BUDGET_EXCEEDED)
    await check_held_until_it_has_stopped(shop, run, second)

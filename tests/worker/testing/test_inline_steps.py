"""Steps, sleeps by the moved clock and messages, with the fixtures and the inline worker."""

from typing import Any

import pytest

from treadle import Context, task
from treadle.encryption import new_key

calls: list[str] = []


def charge(order: str) -> str:
    calls.append(order)
    return f"receipt of {order}"


@task
async def fulfil(ctx: Context, order: str) -> list[Any]:
    receipt = await ctx.step("charge", charge, order)
    await ctx.sleep(3600)
    return [receipt, await ctx.receive("approved", timeout=86_400)]


@task
def fulfil_plainly(ctx: Context, order: str) -> list[Any]:
    receipt = ctx.step("charge", charge, order)
    ctx.sleep(3600)
    return [receipt, ctx.receive("approved", timeout=86_400)]


@task(encrypted=True)
async def fulfil_secretly(ctx: Context, order: str) -> list[Any]:
    receipt = await ctx.step("charge", charge, order)
    await ctx.sleep(3600)
    return [receipt, await ctx.receive("approved")]


@pytest.mark.inside  # time moves in the test's process
@pytest.mark.parametrize("each", [fulfil, fulfil_plainly, fulfil_secretly], ids=lambda each: each.job.name)
def test_a_task_sleeps_by_the_moved_clock_and_receives(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, each: Any
) -> None:
    monkeypatch.setenv("TREADLE_ENCRYPTION_KEYS", new_key())
    client, worker = request.getfixturevalue("treadle_client"), request.getfixturevalue("treadle_worker")(each)
    calls.clear()
    handle = client.submit(each.bind("A-17"))

    [asleep] = worker.run_all()
    request.getfixturevalue("treadle_clock").move(3600)
    [waits] = worker.run_all()
    handle.send("approved", {"by": "ann"})
    [ended] = worker.run_all()

    assert (asleep.status, waits.status, ended.status) == ("scheduled", "scheduled", "completed")
    assert handle.result(timeout=30) == ["receipt of A-17", {"by": "ann"}]
    assert calls == ["A-17"]
    assert [step.step for step in handle.steps()] == ["charge", "sleep", "approved"]

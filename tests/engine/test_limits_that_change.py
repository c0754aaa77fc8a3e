"""Limits that are changed while many wait, and what is told of those whom a limit lets through."""

import asyncio
from typing import Any

import pytest

from tests.conftest import FakeClock
from tests.engine.test_limits import ids, named, set_limit
from treadle_server.engine.commands import DeleteLimit, Edit, OpenLimits
from treadle_server.engine.hub import Batch
from treadle_server.errors import LimitInUse, ValidationFailed
from treadle_server.store.transaction import limits_kept

pytestmark = pytest.mark.anyio


async def test_a_raised_limit_lets_all_go_on_also_where_more_keys_wait_than_one_batch_decides(
    shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits_kept, "MOST_AWAITED", 2)
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    keys = [f"k{n}" for n in range(5)]
    for key in keys:
        await shop.submit(2, limits=named(key=key))
    assert len(await shop.claim(worker, 20)) == len(keys)

    await set_limit(shop, concurrency=2)
    assert await shop.engine.run(OpenLimits()) >= len(keys) - 2

    assert len(await shop.claim(worker, 20)) == len(keys)
    # What was decided about is not looked at again.
    assert await shop.engine.run(OpenLimits()) == 0


@pytest.mark.parametrize("how", ["time", "change"])
async def test_it_is_told_in_which_queue_a_limit_lets_another_through_though_nobody_takes_it(
    shop, clock: FakeClock, how: str
) -> None:
    await set_limit(shop, rate=(1, 10))
    worker = await shop.worker()
    first, second = await shop.submit(2, limits=named())
    assert ids(await shop.claim(worker, 2)) == [first.id]
    told: list[Batch] = []
    shop.engine.hub.listen(told.append)

    clock.advance(10)
    if how == "time":
        await shop.engine.run(OpenLimits())
    else:
        await set_limit(shop, rate=(1, 5))

    [batch] = told
    assert (batch.shifted, batch.lanes) == ({second.lane}, {second.lane})


async def test_a_limit_is_not_deleted_while_code_that_was_cancelled_counts_against_it(shop) -> None:
    """Made anew it is the same limit: what still runs beside it would be one too many."""
    await set_limit(shop, concurrency=1)
    [task] = await shop.submit(limits=named())
    [claimed] = await shop.claim(await shop.worker())
    await shop.report(claimed, "started")
    await shop.steer(task, "cancel")
    delete = DeleteLimit(principal=shop.principal, room="@global", name="api")

    with pytest.raises(LimitInUse, match="has not stopped yet"):
        await shop.engine.run(delete)
    await shop.report(claimed, "stopped")

    await shop.engine.run(delete)


@pytest.mark.parametrize("how", ["submit", "edit", "rerun", "job"])
async def test_a_limit_is_not_deleted_beside_what_comes_to_name_it(shop, how: str) -> None:
    await set_limit(shop, concurrency=1)
    [task] = await shop.submit(limits=named() if how == "rerun" else None)
    if how == "rerun":
        await shop.steer(task, "cancel")
    change = {
        "submit": lambda: shop.submit(limits=named()),
        "edit": lambda: shop.engine.run(Edit(principal=shop.principal, task_id=task.id, changes={"limits": named()})),
        "rerun": lambda: shop.steer(task, "rerun"),
        "job": lambda: shop.register("limited", defaults='{"limits": [{"name": "api"}]}'),
    }[how]

    changed, deleted = await asyncio.gather(
        change(),
        shop.engine.run(DeleteLimit(principal=shop.principal, room="@global", name="api")),
        return_exceptions=True,
    )

    assert not isinstance(changed, BaseException)
    assert isinstance(deleted, LimitInUse)


async def test_lines_of_other_keys_that_wait_for_the_same_rate_go_on_one_by_one(shop, clock: FakeClock) -> None:
    await set_limit(shop, concurrency=1)
    await set_limit(shop, "rate", rate=(1, 10))
    worker = await shop.worker()
    tasks = [(await shop.submit(limits=[*named(key=key), *named("rate")]))[0] for key in "abcd"]
    begun: list[list[str]] = []

    for _ in tasks:
        await shop.engine.run(OpenLimits())
        claimed = await shop.claim(worker, 10)
        begun.append(ids(claimed))
        for task in claimed:
            await shop.run(task)
        clock.advance(10)

    assert begun == [[task.id] for task in tasks]


async def test_a_changed_rate_fills_from_then_on_and_what_the_old_one_filled_stays(shop, clock: FakeClock) -> None:
    """An hour at one token an hour is one token, also when the rate is a hundred a minute from then on."""
    await set_limit(shop, rate=(1, 3600), burst=4)
    worker = await shop.worker()
    await shop.submit(9, limits=named())
    assert len(await shop.claim(worker, 9)) == 4

    clock.advance(3600)
    await set_limit(shop, rate=(100, 60))
    assert len(await shop.claim(worker, 9)) == 1

    clock.advance(1.2)
    await shop.engine.run(OpenLimits())
    assert len(await shop.claim(worker, 9)) == 2


@pytest.mark.parametrize("burst", [1, 5])
async def test_a_bucket_that_was_full_is_full_when_the_burst_is_another(shop, clock: FakeClock, burst: int) -> None:
    await set_limit(shop, rate=(1, 10), burst=3)
    worker = await shop.worker()
    await shop.submit(9, limits=named())
    assert len(await shop.claim(worker, 9)) == 3

    clock.advance(30)
    await set_limit(shop, rate=(1, 10), burst=burst)

    assert len(await shop.claim(worker, 9)) == burst


async def test_a_limit_that_gets_a_rate_begins_full_for_keys_that_waited_before_too(shop) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    await shop.submit(4, limits=named())
    [claimed] = await shop.claim(worker, 4)
    await set_limit(shop, concurrency=1, on_full="newest")
    await shop.run(claimed)

    await set_limit(shop, rate=(1, 3600), burst=3)

    assert len(await shop.claim(worker, 4)) == 3


async def test_an_edit_of_a_payload_is_not_refused_for_limits_that_it_leaves_as_they_are(shop) -> None:
    await set_limit(shop, concurrency=2)
    [task] = await shop.submit(limits=named(weight=2))
    await set_limit(shop, concurrency=1)

    def edit(**changes: Any) -> Edit:
        return Edit(principal=shop.principal, task_id=task.id, changes=changes)

    edited = await shop.engine.run(edit(payload='{"n":2}'))

    assert edited.payload == '{"n":2}'
    with pytest.raises(ValidationFailed, match="never fits"):
        await shop.engine.run(edit(limits=named(weight=3)))


async def test_a_line_whose_first_task_is_too_heavy_for_the_workers_keeps_no_other_line_from_the_limit(
    shop, clock: FakeClock
) -> None:
    """Both are of one queue, and there is room for one of them."""
    await set_limit(shop, concurrency=1)
    await set_limit(shop, "other", concurrency=1)
    big, small = await shop.worker(pool="big"), await shop.worker(concurrency=1)
    await shop.submit(limits=named(), options={"pool": "big"})
    [first] = await shop.claim(big)
    await shop.submit(limits=named(), options={"weight": 2})
    [second] = await shop.submit(limits=[*named(), *named("other")])
    await shop.run(first)

    for _ in range(2):
        clock.advance(1)
        await shop.engine.run(OpenLimits())

    assert ids(await shop.claim(small)) == [second.id]
    # Nothing is left to look at.
    clock.advance(1)
    assert await shop.engine.run(OpenLimits()) == 0


@pytest.mark.parametrize("target", [None, "other"])
@pytest.mark.parametrize("is_full", [False, True])
async def test_what_lost_its_limits_and_its_target_in_one_edit_is_claimed(shop, target: str | None, is_full) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    if is_full:
        await shop.submit(target="printer", limits=named())
        await shop.claim(worker)
    [task] = await shop.submit(target="printer", limits=named())

    await shop.engine.run(Edit(principal=shop.principal, task_id=task.id, changes={"target": target, "limits": None}))

    assert ids(await shop.claim(worker)) == [task.id]

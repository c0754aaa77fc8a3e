"""Limits cap tasks over all workers: how much runs at once, how much begins in a time, each key for itself."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from treadle.wire.limits import OnFull
from treadle.wire.status import Status
from treadle_server.access.principal import SYSTEM, Principal
from treadle_server.domain.limits import Caps
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import (
    DeleteLimit,
    Edit,
    OpenLimits,
    ReleaseHolds,
    SetLimit,
    Steer,
    SweepWorkers,
)
from treadle_server.engine.commands.hand_back import hand_back
from treadle_server.engine.limits import LimitKeeper
from treadle_server.errors import Forbidden, LimitInUse, LimitNotFound, ValidationFailed
from treadle_server.services.promoter import Promoter
from treadle_server.store.base import LostUpdate, Tx

pytestmark = pytest.mark.anyio


async def set_limit(
    shop, name: str = "api", *, room: str = "@global", concurrency: int | None = None,
    rate: tuple[int, float] | None = None, burst: int | None = None, principal: Principal | None = None,
    on_full: OnFull = "wait",
) -> None:  # fmt: skip
    caps = Caps(
        concurrency=concurrency,
        rate_count=None if rate is None else rate[0],
        rate_seconds=None if rate is None else rate[1],
        rate_burst=None if rate is None else burst or rate[0],
        on_full=on_full,
    )
    await shop.engine.run(SetLimit(principal=principal or shop.principal, room=room, name=name, caps=caps))


def named(name: str = "api", key: str | None = None, weight: int | None = None) -> list[dict[str, Any]]:
    return [{"name": name, "key": key, "weight": weight}]


def ids(tasks: Sequence[Task]) -> list[str]:
    return [str(task.id) for task in tasks]


async def uses(shop) -> list[tuple[int, int]]:
    async with shop.engine.store.read() as connection:
        rows = await connection.execute(sa.text("SELECT run_id, weight FROM limit_uses ORDER BY task_seq, run_id"))
        return [tuple(row) for row in rows]


async def test_no_more_run_at_once_than_the_limit_says_and_the_next_goes_when_one_ends(shop) -> None:
    await set_limit(shop, concurrency=2)
    worker = await shop.worker()
    tasks = await shop.submit(4, limits=named())

    first = await shop.claim(worker, 10)

    assert ids(first) == ids(tasks[:2])
    assert await shop.claim(worker, 10) == []
    await shop.run(first[0])
    assert ids(await shop.claim(worker, 10)) == ids(tasks[2:3])
    assert await shop.claim(worker, 10) == []


async def test_a_full_limit_stops_nothing_else_of_the_queue(shop) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    [limited, behind] = await shop.submit(2, limits=named())
    plain = await shop.submit(3)

    assert ids(await shop.claim(worker, 10)) == ids([limited, *plain])
    assert await shop.claim(worker, 10) == []
    assert (await shop.get(behind.id)).status is Status.PENDING


async def test_a_claim_goes_on_behind_all_that_another_queue_has_filled_the_limits_of(shop) -> None:
    await set_limit(shop, concurrency=1)
    other = await shop.register("other")
    workers = [await shop.worker(), await shop.worker(other)]
    for key in range(40):
        for job in (shop.job, other):
            await shop.submit(job=job, limits=named(key=f"k{key}"))
    [plain] = await shop.submit()
    while await shop.claim(workers[1], 40):
        pass
    assert len(await uses(shop)) == 40

    assert ids(await shop.claim(workers[0])) == [plain.id]


async def test_what_a_full_limit_keeps_is_passed_over_also_where_it_would_be_too_heavy(shop) -> None:
    await set_limit(shop, concurrency=1)
    other = await shop.register("other")
    worker, second = await shop.worker(concurrency=3), await shop.worker(other)
    await shop.submit()
    assert len(await shop.claim(worker)) == 1
    await shop.submit(limits=named(), options={"weight": 3})
    [plain] = await shop.submit()
    await shop.submit(job=other, limits=named())
    assert len(await shop.claim(second)) == 1

    assert ids(await shop.claim(worker)) == [plain.id]


async def test_each_key_has_the_limit_for_itself(shop) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    acme = await shop.submit(2, limits=named(key="acme"))
    other = await shop.submit(2, limits=named(key="other"))
    without = await shop.submit(2, limits=named())

    assert ids(await shop.claim(worker, 10)) == ids([acme[0], other[0], without[0]])


async def test_a_job_names_its_limits_with_a_key_out_of_the_payload(shop) -> None:
    await set_limit(shop, concurrency=1)
    job = await shop.register("paid", defaults='{"limits": [{"name": "api", "key": "/n"}]}')
    worker = await shop.worker(job)
    tasks = await shop.submit(2, job=job) + await shop.submit(2, job=job)

    claimed = await shop.claim(worker, 10)

    assert ids(claimed) == ids(tasks[:2])
    assert (await shop.get(tasks[3].id)).limits.count('"key": "1"') or '"key":"1"' in (
        await shop.get(tasks[3].id)
    ).limits


async def test_weights_count_and_a_heavy_task_is_not_overtaken_by_lighter_ones_of_its_line(shop) -> None:
    await set_limit(shop, concurrency=3)
    worker = await shop.worker()
    [light] = await shop.submit(limits=named(weight=1))
    [heavy] = await shop.submit(limits=named(weight=3))
    [last] = await shop.submit(limits=named(weight=1))

    [claimed] = await shop.claim(worker, 10)
    assert claimed.id == light.id
    assert await shop.claim(worker, 10) == []
    await shop.run(claimed)

    [claimed] = await shop.claim(worker, 10)
    assert claimed.id == heavy.id
    await shop.run(claimed)
    assert ids(await shop.claim(worker, 10)) == [last.id]


async def test_a_higher_priority_that_comes_later_goes_first_within_the_line(shop) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    [first] = await shop.submit(limits=named())
    [claimed] = await shop.claim(worker, 10)
    later = await shop.submit(2, limits=named())
    [urgent] = await shop.submit(limits=named(), options={"priority": 9})

    await shop.run(claimed)

    assert claimed.id == first.id
    assert ids(await shop.claim(worker, 10)) == [urgent.id]
    assert [(await shop.get(task.id)).status for task in later] == [Status.PENDING] * 2


async def test_two_limits_are_both_kept_and_what_waits_for_one_leaves_the_other_to_those_behind(shop) -> None:
    await set_limit(shop, "all", concurrency=2)
    await set_limit(shop, "each", concurrency=1)
    worker = await shop.worker()
    both = lambda key: [*named("all"), *named("each", key)]  # noqa: E731
    a = await shop.submit(3, limits=both("a"))
    b = await shop.submit(2, limits=both("b"))
    c = await shop.submit(1, limits=both("c"))

    first = await shop.claim(worker, 10)
    assert ids(first) == ids([a[0], b[0]])

    await shop.run(first[1])
    second = await shop.claim(worker, 10)
    assert ids(second) == [b[1].id]
    await shop.run(second[0])
    assert ids(await shop.claim(worker, 10)) == [c[0].id]
    await shop.run(first[0])
    assert ids(await shop.claim(worker, 10)) == [a[1].id]


async def test_a_cancelled_run_counts_until_its_code_has_stopped(shop) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    [first, second] = await shop.submit(2, limits=named())
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")

    await shop.engine.run(Steer(principal=shop.principal, task_id=first.id, action="cancel"))

    assert await shop.claim(worker) == []
    assert len(await uses(shop)) == 1
    await shop.report(claimed, "stopped")
    assert ids(await shop.claim(worker)) == [second.id]


async def test_a_lost_run_counts_until_its_lease_has_ended(shop, clock) -> None:
    """Its worker may only be cut off, and run its code until then."""
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    await shop.submit(2, limits=named(), options={"lease_seconds": 600.0, "max_requeues": 3})
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    clock.advance(70)

    await shop.engine.run(SweepWorkers(timeout=60))

    other = await shop.worker()
    assert await uses(shop) == [(0, 1)]
    assert await shop.claim(other, 10) == []
    clock.advance(540)
    await shop.engine.run(ReleaseHolds())
    assert len(await shop.claim(other, 10)) == 1
    assert await uses(shop) == [(1, 1)]


async def test_what_waits_for_a_retry_or_is_paused_counts_for_nothing(shop) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    options = {"max_retries": 3, "retry_base": 60.0}
    [first, second] = await shop.submit(2, limits=named(), options=options)
    [claimed] = await shop.claim(worker)

    await shop.run(claimed, "failed", error="x")

    assert (await shop.get(first.id)).status is Status.SCHEDULED
    assert ids(await shop.claim(worker)) == [second.id]


async def test_a_rate_lets_no_more_begin_than_it_has_tokens_and_fills_with_time(shop, clock) -> None:
    await set_limit(shop, rate=(2, 10))
    worker = await shop.worker()
    tasks = await shop.submit(5, limits=named())

    first = await shop.claim(worker, 10)
    assert ids(first) == ids(tasks[:2])
    for task in first:
        await shop.run(task)
    assert await shop.claim(worker, 10) == [], "an end gives no token back"
    clock.advance(5)
    assert await shop.engine.run(OpenLimits()) == 1
    assert ids(await shop.claim(worker, 10)) == [tasks[2].id]
    clock.advance(3600)
    await shop.engine.run(OpenLimits())
    assert ids(await shop.claim(worker, 10)) == ids(tasks[3:5]), "never more than the bucket holds"


async def test_a_run_that_is_handed_back_unstarted_gives_its_token_back(shop) -> None:
    await set_limit(shop, rate=(1, 3600))
    worker = await shop.worker()
    [task] = await shop.submit(limits=named())
    [claimed] = await shop.claim(worker)

    back = hand_back(SYSTEM, worker, [(claimed.id, claimed.run_id)])
    await shop.engine.run(back)

    [again] = await shop.claim(worker)
    assert (again.id, again.run_id) == (task.id, 1)
    await shop.run(again)
    await shop.submit(limits=named())
    assert await shop.claim(worker) == []


async def test_a_clock_that_is_set_fills_nothing(shop, clock) -> None:
    await set_limit(shop, rate=(1, 60))
    worker = await shop.worker()
    tasks = await shop.submit(3, limits=named())
    [first] = await shop.claim(worker, 10)
    assert first.id == tasks[0].id

    for hours in (5, -9):
        clock.jump(timedelta(hours=hours).total_seconds())
        await shop.engine.run(OpenLimits())
        assert await shop.claim(worker, 10) == []

    clock.advance(61)
    await shop.engine.run(OpenLimits())
    assert ids(await shop.claim(worker, 10)) == [tasks[1].id]


async def test_a_clock_that_was_set_is_heeded_by_a_transaction_that_is_committed(clock) -> None:
    """Of those that overlap, and of those that follow one that fails, each heeds it until one is committed."""
    keeper = LimitKeeper(clock.monotonic)
    transactions = [Tx(None, "sqlite", 1) for _ in range(4)]
    first = await keeper.begin(transactions[0], clock.now())
    assert not first.was_set
    keeper.keep(first)
    clock.jump(7200)

    failed, second = [await keeper.begin(tx, clock.now()) for tx in transactions[1:3]]
    assert failed.was_set
    assert second.was_set
    keeper.note_failure(LostUpdate())
    keeper.keep(second)
    assert not (await keeper.begin(transactions[3], clock.now())).was_set


async def test_a_raised_limit_lets_those_go_on_that_wait_and_a_lowered_one_waits_for_room(shop) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    tasks = await shop.submit(6, limits=named())
    running = await shop.claim(worker, 10)

    await set_limit(shop, concurrency=3)
    running += await shop.claim(worker, 10)
    assert ids(running) == ids(tasks[:3])

    await set_limit(shop, concurrency=1)
    for task in running[:2]:
        await shop.run(task)
        assert await shop.claim(worker, 10) == []
    await shop.run(running[2])
    assert ids(await shop.claim(worker, 10)) == [tasks[3].id]


async def test_a_target_and_a_limit_are_both_kept(shop) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    [a] = await shop.submit(limits=named(), target="robot")
    [b] = await shop.submit(limits=named(), target="robot")
    [c] = await shop.submit(limits=named())

    [first] = await shop.claim(worker, 10)
    assert first.id == a.id
    await shop.run(first)
    [second] = await shop.claim(worker, 10)
    assert second.id == b.id
    await shop.run(second)
    assert ids(await shop.claim(worker, 10)) == [c.id]


async def test_a_plain_task_of_the_target_that_ends_lets_a_limited_one_wait_for_its_limit(shop) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    [plain] = await shop.submit(target="robot")
    [other] = await shop.submit(limits=named())
    [both] = await shop.submit(target="robot", limits=named())
    claimed = await shop.claim(worker, 10)
    assert set(ids(claimed)) == {plain.id, other.id}

    for task in claimed:
        assert await shop.claim(worker, 10) == []
        await shop.run(task)

    assert ids(await shop.claim(worker, 10)) == [both.id]


async def test_what_no_limit_admits_is_refused_and_nothing_of_its_request_is_put_in(shop) -> None:
    await set_limit(shop, concurrency=2)

    with pytest.raises(LimitNotFound, match="treadle limits set other"):
        await shop.submit(2, limits=named("other"))
    with pytest.raises(ValidationFailed, match="weight of 3 never fits"):
        await shop.submit(limits=named(weight=3))
    with pytest.raises(ValidationFailed, match="4 in all"):
        await shop.submit(limits=[one for key in "abcde" for one in named(key=key)])

    async with shop.engine.store.read() as connection:
        assert (await connection.execute(sa.text("SELECT count(*) FROM tasks"))).scalar_one() == 0


async def test_a_limit_that_is_named_is_not_deleted(shop) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    [task] = await shop.submit(limits=named())
    delete = DeleteLimit(principal=shop.principal, room="@global", name="api")

    with pytest.raises(LimitInUse):
        await shop.engine.run(delete)
    [claimed] = await shop.claim(worker)
    await shop.run(claimed)
    job = await shop.register("paid", defaults='{"limits": [{"name": "api"}]}')
    with pytest.raises(LimitInUse):
        await shop.engine.run(delete)
    await shop.register("paid", defaults='{"limits": []}')
    await shop.engine.run(delete)

    with pytest.raises(LimitNotFound):
        await shop.engine.run(delete)
    await shop.engine.run(Steer(principal=shop.principal, task_id=task.id, action="rerun"))
    assert ids(await shop.claim(worker)) == [task.id], "nothing counts against a limit that is gone"
    assert job == "@global:tasks:paid"


async def test_only_a_superuser_sets_limits_of_shared_rooms(shop) -> None:
    user = Principal("ann")

    with pytest.raises(Forbidden):
        await set_limit(shop, concurrency=1, principal=user)
    with pytest.raises(Forbidden):
        await set_limit(
            shop, room="lab", concurrency=1, principal=Principal("ann", scopes=frozenset({"queue:read:lab"}))
        )

    await set_limit(shop, room="lab", concurrency=1, principal=user)


async def test_limits_that_are_taken_from_a_waiting_task_hold_it_no_longer(shop) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    [first, second] = await shop.submit(2, limits=named())
    await shop.claim(worker)

    await shop.engine.run(Edit(principal=shop.principal, task_id=second.id, changes={"limits": None}))

    assert ids(await shop.claim(worker)) == [second.id]
    assert first.id != second.id


async def test_a_lane_without_workers_keeps_no_other_lane_waiting(shop) -> None:
    await set_limit(shop, concurrency=1)
    other = await shop.register("other")
    worker = await shop.worker()
    [idle] = await shop.submit(job=other, limits=named())
    mine = await shop.submit(2, limits=named())

    for task in mine:
        [claimed] = await shop.claim(worker, 10)
        assert claimed.id == task.id
        await shop.run(claimed)

    assert (await shop.get(idle.id)).status is Status.PENDING
    assert ids(await shop.claim(await shop.worker(other))) == [idle.id]


async def test_the_promoter_lets_a_line_go_on_when_its_token_comes_and_not_a_second_later(shop, clock) -> None:
    await set_limit(shop, rate=(10, 1), burst=1)
    worker = await shop.worker()
    tasks = await shop.submit(3, limits=named())
    promoter = Promoter(shop.engine)
    await promoter.turn()
    await promoter.wait(0)
    sleeping = asyncio.ensure_future(promoter.wait(60))

    assert ids(await shop.claim(worker, 10)) == ids(tasks[:1])
    async with asyncio.timeout(20):
        await sleeping
    assert await promoter.turn() == pytest.approx(0.1, abs=1e-5)
    clock.advance(0.1001)
    assert await promoter.turn() == 0
    assert ids(await shop.claim(worker, 10)) == ids(tasks[1:2])


@pytest.mark.parametrize("caps", [{"rate": (100, 1)}, {"concurrency": 5}], ids=["faster", "no-rate"])
async def test_a_line_that_waited_for_a_token_goes_on_by_the_changed_limit(shop, clock, caps) -> None:
    await set_limit(shop, rate=(1, 3600))
    worker = await shop.worker()
    [_, waits] = await shop.submit(2, limits=named())
    assert len(await shop.claim(worker, 10)) == 1
    promoter = Promoter(shop.engine)

    await set_limit(shop, **caps)
    clock.advance(1)
    while await promoter.turn() == 0:
        continue

    assert ids(await shop.claim(worker, 10)) == [waits.id]


async def test_a_clock_that_was_set_leaves_the_promoter_asleep_until_the_next_token(shop, clock) -> None:
    await set_limit(shop, rate=(1, 60))
    worker = await shop.worker()
    await shop.submit(2, limits=named())
    await shop.claim(worker, 10)
    promoter = Promoter(shop.engine)

    clock.jump(7200)
    await promoter.turn()
    await promoter.turn()

    assert await promoter.turn() == 1.0

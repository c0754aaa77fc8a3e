"""Limits that reject refuse what they have no room for: used, waiting and what comes, each key for itself."""

import asyncio
from datetime import timedelta

import pytest

from tests.engine.test_limits import ids, named, set_limit
from treadle.wire.status import Status
from treadle_server.domain.dependencies import Need
from treadle_server.engine.commands import Submission, Submit, SubmitEach
from treadle_server.errors import LimitFull

pytestmark = pytest.mark.anyio


async def refused(shop, n: int = 1, **details) -> LimitFull:
    """Return the refusal of a submit, which puts nothing in."""
    async with shop.engine.store.read() as connection:
        before = (await connection.exec_driver_sql("SELECT count(*) FROM tasks")).scalar_one()
    with pytest.raises(LimitFull) as told:
        await shop.submit(n, **details)
    async with shop.engine.store.read() as connection:
        assert (await connection.exec_driver_sql("SELECT count(*) FROM tasks")).scalar_one() == before
    return told.value


async def test_what_passes_the_concurrency_with_what_is_used_and_waits_is_refused_until_there_is_room(shop) -> None:
    await set_limit(shop, concurrency=3, on_full="reject")
    worker = await shop.worker()
    [first, waiting] = await shop.submit(2, limits=named(key="acme"))
    assert ids(await shop.claim(worker)) == ids([first])

    heavy = await refused(shop, limits=named(key="acme", weight=2))
    await shop.submit(limits=named(key="other", weight=3))
    await shop.submit(limits=named(key="acme"))
    full = await refused(shop, limits=named(key="acme"))

    assert "concurrency is 3, 1 of that is in use, 1 is waiting, and this needs 2" in heavy.detail
    assert "the limit 'api' of room @global is full for 'acme'" in full.detail
    assert full.retry_after == 1
    await shop.steer(waiting, "cancel")
    await shop.submit(limits=named(key="acme"))


async def test_a_bulk_is_refused_whole_and_counts_each_of_its_tasks_once(shop) -> None:
    await set_limit(shop, concurrency=2, on_full="reject")
    [held] = await shop.submit(limits=named(), unique_key="held")

    await refused(shop, 2, limits=named())
    # The first is there already, the others are one and the same.
    assert ids(await shop.submit(2, limits=named(), unique_key="held")) == ids([held, held])
    [one, same] = await shop.submit(2, limits=named(), unique_key="one")

    assert one.id == same.id
    await refused(shop, limits=named())


@pytest.mark.parametrize("is_of_the_request", [False, True])
async def test_a_bulk_counts_those_too_that_wait_for_what_has_ended_as_they_need_it(shop, is_of_the_request) -> None:
    await set_limit(shop, concurrency=1, on_full="reject")
    [failed] = await shop.submit(options={"max_retries": 0})
    [run] = await shop.claim(await shop.worker())
    await shop.run(run, "failed", error="x")
    again = Submission(job_name=shop.job, payload="{}", content_hash=failed.content_hash, id=failed.id)
    need = Need(0 if is_of_the_request else failed.id, [("d", None)])
    more = {"needs": [need], "on_dependency_failure": "run", "limits": named()}
    waiting = [Submission(job_name=shop.job, payload="{}", content_hash=b"x", **more) for _ in range(2)]

    with pytest.raises(LimitFull):
        await shop.engine.run(Submit(principal=shop.principal, room="@global", items=[again, *waiting]))
    *_, one = await shop.engine.run(Submit(principal=shop.principal, room="@global", items=[again, waiting[0]]))

    assert one.task.status is Status.PENDING


async def test_what_is_there_already_is_answered_again_when_the_limit_is_full(shop) -> None:
    await set_limit(shop, concurrency=1, on_full="reject")
    [task] = await shop.submit(limits=named(), unique_key="k")

    assert (await shop.submit(limits=named(), id=task.id))[0].id == task.id
    assert (await shop.submit(limits=named(), unique_key="k"))[0].id == task.id


async def test_of_tasks_that_stand_for_themselves_those_that_fit_are_put_in(shop) -> None:
    await set_limit(shop, concurrency=2, on_full="reject")
    items = [Submission(job_name=shop.job, payload="{}", content_hash=b"x", limits=named()) for _ in range(3)]

    taken = await shop.engine.run(SubmitEach(principal=shop.principal, room="@global", items=items))

    assert [isinstance(one, LimitFull) for one in taken] == [False, False, True]


async def test_a_rate_that_rejects_takes_as_many_as_it_has_tokens_and_says_when_the_next_one_comes(shop, clock) -> None:
    await set_limit(shop, rate=(1, 30), burst=2, on_full="reject")
    worker = await shop.worker()
    await shop.submit(2, limits=named())

    waits = await refused(shop, limits=named())
    assert len(await shop.claim(worker, 5)) == 2
    clock.advance(10)
    used_up = await refused(shop, limits=named())
    clock.advance(20)
    await shop.submit(limits=named())

    assert "it has 2 tokens, and 2 tasks wait for one" in waits.detail
    # The one that came just now waits for the one token.
    assert "it has 1 token, and 1 task waits for one" in (await refused(shop, limits=named())).detail
    assert (waits.retry_after, used_up.retry_after) == (30, pytest.approx(20))


async def test_all_limits_of_a_task_are_looked_at_and_those_of_several_are_counted_in_each(shop) -> None:
    await set_limit(shop, concurrency=2, on_full="reject")
    await set_limit(shop, "gpu", concurrency=3, on_full="reject")
    await shop.submit(2, limits=[*named(), *named("gpu")])

    assert "'api'" in (await refused(shop, limits=named())).detail
    assert "'api'" in (await refused(shop, limits=[*named(), *named("gpu")])).detail
    await shop.submit(limits=named("gpu"))
    assert "'gpu'" in (await refused(shop, limits=named("gpu"))).detail


async def test_what_is_due_later_does_not_count_until_then_and_waits_when_its_time_comes(shop) -> None:
    await set_limit(shop, concurrency=1, on_full="reject")
    worker = await shop.worker()

    await shop.submit(3, limits=named(), due_at=shop.engine.clock.now() + timedelta(days=1))
    [task] = await shop.submit(limits=named())
    await refused(shop, limits=named(), delay=60.0)

    assert ids(await shop.claim(worker, 5)) == ids([task])


async def test_a_limit_that_begins_to_reject_leaves_what_waits_and_one_that_ceases_lets_all_wait(shop) -> None:
    await set_limit(shop, concurrency=1)
    tasks = await shop.submit(4, limits=named())

    await set_limit(shop, concurrency=1, on_full="reject")
    await refused(shop, limits=named())
    assert (await shop.get(tasks[3].id)).status is Status.PENDING
    await set_limit(shop, concurrency=1)
    await shop.submit(limits=named())


@pytest.mark.postgres
async def test_two_servers_together_put_no_more_in_than_there_is_room(shops_by_its_clock) -> None:
    await set_limit(shops_by_its_clock[0], concurrency=5, on_full="reject")

    async def put_in(shop) -> int:
        taken = 0
        for _ in range(6):
            try:
                await shop.submit(limits=named())
            except LimitFull:
                continue
            taken += 1
        return taken

    async with asyncio.TaskGroup() as group:
        counts = [group.create_task(put_in(shop)) for shop in shops_by_its_clock]

    assert sum(count.result() for count in counts) == 5

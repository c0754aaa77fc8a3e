"""What waits in the head cache between two claims, with the engine around it and somebody who interferes."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.engine.conftest import ADMIN, Shop
from treadle.wire.ids import TaskId, WorkerId
from treadle_server.engine.commands import Edit, PatchJob
from treadle_server.engine.dispatch import head_cache as head_cache_module
from treadle_server.engine.engine import Engine
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tasks

pytestmark = pytest.mark.anyio


async def cached_lane(shop, n: int, **details) -> tuple[WorkerId, list[TaskId]]:
    """Return a worker, and `n` tasks of which it was shown none yet, though they wait in the head cache."""
    worker = await shop.worker()
    await shop.submit(2)
    assert len(await shop.claim(worker, 9)) == 2
    ids = [task.id for task in await shop.submit(n, **details)]
    kept = [task.id for cached in shop.engine.dispatcher.head_cache._heads.values() for task in cached.tasks]
    assert kept == ids
    return worker, ids


async def test_what_waits_in_the_head_cache_is_handed_out_without_a_read(shop, monkeypatch) -> None:
    worker, ids = await cached_lane(shop, 3)
    monkeypatch.setattr(head_cache_module, "heads", None)

    assert [task.id for task in await shop.claim(worker, 3)] == ids


async def test_another_process_that_writes_between_two_claims_is_heeded_z9(shop, database_url) -> None:
    """Z9: a second server on the same database puts the last of the queue first; the database says that it wrote."""
    worker, ids = await cached_lane(shop, 5)
    other = SqlStore(database_url)
    await other.open()
    try:
        async with other.write() as tx:
            last = tasks.update().where(tasks.c.id == ids[-1])
            await tx.connection.execute(last.values(priority=9, version=tasks.c.version + 1))
    finally:
        await other.close()

    assert [task.id for task in await shop.claim(worker, 3)] == [ids[4], ids[0], ids[1]]


async def test_another_process_that_claims_from_the_same_queue_leaves_the_rest_z9(shop, database_url) -> None:
    worker, ids = await cached_lane(shop, 5)
    other = SqlStore(database_url)
    await other.open()
    async with Engine(other, clock=shop.engine.clock).running() as engine:
        elsewhere = await Shop(engine).claim(worker, 2)
    await other.close()

    assert [task.id for task in elsewhere] == ids[:2]
    assert [task.id for task in await shop.claim(worker, 9)] == ids[2:]


@pytest.mark.parametrize("verb", ["cancel", "pause"])
async def test_what_is_steered_away_leaves_the_head_cache(shop, verb) -> None:
    worker, ids = await cached_lane(shop, 4)

    await shop.steer(await shop.get(ids[0]), verb)

    assert [task.id for task in await shop.claim(worker, 9)] == ids[1:]


async def test_a_task_that_is_edited_or_handed_back_has_its_place_in_the_order_again(shop) -> None:
    worker, ids = await cached_lane(shop, 4)
    [first] = await shop.claim(worker)
    await shop.engine.run(Edit(principal=ADMIN, task_id=ids[2], changes={"priority": 1}))

    await shop.report(first, "returned")

    assert [task.id for task in await shop.claim(worker, 9)] == [ids[2], ids[0], ids[1], ids[3]]


async def test_a_paused_queue_gives_nothing_from_the_head_cache_and_afterwards_all_of_it(shop) -> None:
    worker, ids = await cached_lane(shop, 3)

    await shop.engine.run(PatchJob(principal=ADMIN, job_name=shop.job, room="@global", paused=True))
    assert await shop.claim(worker, 9) == []
    await shop.engine.run(PatchJob(principal=ADMIN, job_name=shop.job, room="@global", paused=False))

    assert [task.id for task in await shop.claim(worker, 9)] == ids


async def test_a_task_in_the_head_cache_whose_deadline_passes_is_not_claimed_c11(shop, clock) -> None:
    worker, ids = await cached_lane(shop, 2, deadline=clock.now() + timedelta(seconds=5))

    clock.advance(5)

    assert await shop.claim(worker, 9) == []
    assert len(ids) == 2


async def test_a_bigger_worker_is_given_at_once_what_was_too_heavy_for_the_one_before_e5(shop) -> None:
    """E5: that the small one found nothing says nothing about what is there."""
    small, big = await shop.worker(concurrency=2), await shop.worker(concurrency=8)
    await shop.submit(options={"weight": 5})

    assert await shop.claim(small, 3) == []
    assert [task.weight for task in await shop.claim(big, 3)] == [5]


async def test_a_task_that_waits_in_the_head_cache_is_not_handed_out_once_another_took_its_target_l2(shop) -> None:
    """L2: of two lanes before one target, the second one's more urgent task goes first."""
    worker = await shop.worker()
    await shop.register("other")
    await shop.submit(3, target="robot")
    [warm] = await shop.submit(options={"priority": 1})
    assert [task.id for task in await shop.claim(worker)] == [warm.id]

    [urgent] = await shop.submit(job="@global:tasks:other", target="robot", options={"priority": 5})
    both = await shop.worker("@global:tasks:noop", "@global:tasks:other")

    assert [task.id for task in await shop.claim(both, 9)] == [urgent.id]


async def test_a_submitter_is_told_of_its_task_as_it_was_before_its_claim(shop) -> None:
    worker, _ = await cached_lane(shop, 1)

    [submitted] = await shop.submit()
    claimed = await shop.claim(worker, 9)

    assert submitted.id == claimed[-1].id
    assert (submitted.version, submitted.worker_id) == (1, None)


async def test_the_wake_of_a_poll_leaves_a_lane_of_which_something_claimable_is_known(shop) -> None:
    worker, ids = await cached_lane(shop, 4)
    cached_heads = shop.engine.dispatcher.head_cache._heads
    lanes = set(cached_heads)

    shop.engine.wake(lanes)
    kept = [task.id for cached in cached_heads.values() for task in cached.tasks]
    assert len(await shop.claim(worker, 9)) == 4
    shop.engine.wake(lanes)

    assert kept == ids
    assert cached_heads == {}


async def test_a_worker_is_given_what_came_after_its_queue_was_empty(shop) -> None:
    await shop.register("other")
    worker = await shop.worker(shop.job, "@global:tasks:other")
    [only], others = await shop.submit(), await shop.submit(4, job="@global:tasks:other")
    assert {task.id for task in await shop.claim(worker, 2)} == {only.id, others[0].id}
    assert [task.id for task in await shop.claim(worker, 2)] == [task.id for task in others[1:3]]

    [later] = await shop.submit()

    assert {task.id for task in await shop.claim(worker, 9)} == {later.id, others[3].id}


async def test_a_worker_is_served_from_a_queue_that_was_made_after_its_first_claim(shop) -> None:
    await shop.register("fair", fair="room")
    worker = await shop.worker("@global:tasks:fair")
    for room in ("r1", "r2", "r3"):
        [one] = await shop.submit(job="@global:tasks:fair", room=room)
        assert [task.id for task in await shop.claim(worker, 9)] == [one.id]


async def test_of_two_queues_a_paused_one_gives_nothing_and_later_all_that_was_known_of_it(shop) -> None:
    await shop.register("other")
    worker = await shop.worker(shop.job, "@global:tasks:other")
    first, second = await shop.submit(2), await shop.submit(2, job="@global:tasks:other")
    assert [task.id for task in await shop.claim(worker, 1)] == [first[0].id]

    pause = PatchJob(principal=ADMIN, job_name="@global:tasks:other", room="@global", paused=True)
    await shop.engine.run(pause)
    assert [task.id for task in await shop.claim(worker, 9)] == [first[1].id]
    await shop.engine.run(replace(pause, paused=False))

    assert [task.id for task in await shop.claim(worker, 9)] == [task.id for task in second]

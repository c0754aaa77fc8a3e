"""Waiting claims and slots: woken at once, never given what they cannot hold, and nothing lost when they go."""

import asyncio

import pytest

from tests.engine.conftest import ADMIN
from treadle.wire.status import Status
from treadle_server.engine.commands import PromoteDue, ReturnUnstarted
from treadle_server.engine.dispatch.slots import WorkerSlot

pytestmark = pytest.mark.anyio


async def test_a_waiting_claim_is_answered_by_the_submit_that_comes_c1(shop) -> None:
    worker = await shop.worker()
    waiting = asyncio.ensure_future(shop.engine.claims.claim(ADMIN, worker, most=5, wait=20))
    await asyncio.sleep(0)

    submitted = await shop.submit(2)

    async with asyncio.timeout(20):
        assert [task.id for task in await waiting] == [task.id for task in submitted]


async def test_a_waiting_claim_ends_with_nothing_after_its_time_c1(shop) -> None:
    worker = await shop.worker()

    async with asyncio.timeout(20):
        assert await shop.engine.claims.claim(ADMIN, worker, wait=0.05) == []


async def test_a_caller_who_has_gone_claims_nothing_c1(shop) -> None:
    worker, other = await shop.worker(), await shop.worker()
    waiting = asyncio.ensure_future(shop.engine.claims.claim(ADMIN, worker, wait=20))
    await shop.submit(delay=3600)  # when this is answered, the claim waits

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    [task] = await shop.submit()

    assert [t.id for t in await shop.claim(other)] == [task.id]


async def test_a_promoted_task_wakes_the_claim_that_waits_e1(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit(delay=10)
    waiting = asyncio.ensure_future(shop.engine.claims.claim(ADMIN, worker, wait=20))
    await asyncio.sleep(0)
    clock.advance(10)

    await shop.engine.run(PromoteDue())

    async with asyncio.timeout(20):
        assert len(await waiting) == 1


class SocketWorker:
    """A worker on the socket, reduced to what it was given."""

    def __init__(self, shop, worker, **details) -> None:
        self.given = []
        self.arrived = asyncio.Event()
        values = {"jobs": frozenset({1}), "pool": None, "concurrency": 2, "min_concurrency": 0, "prefetch": 0} | details
        self.slot = WorkerSlot(worker, deliver=self._deliver, **values)
        shop.engine.open_slot(self.slot)

    def _deliver(self, tasks) -> None:
        self.given += tasks
        self.arrived.set()

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.given) < count:
                self.arrived.clear()
                await self.arrived.wait()


async def test_a_slot_is_given_as_much_as_it_holds_and_more_when_a_run_ends(shop) -> None:
    dispatcher = SocketWorker(shop, await shop.worker())
    await shop.submit(5)
    await dispatcher.wait_for(2)
    await shop.submit()  # another turn of the writer gives it nothing more
    assert len(dispatcher.given) == 2

    await shop.run(dispatcher.given[0])

    await dispatcher.wait_for(3)
    assert dispatcher.slot.used == 2


async def test_slots_take_turns_for_what_comes_one_at_a_time(shop) -> None:
    """Who asks is asked in turn: the first to come is not given everything while the others have room."""
    dispatchers = [SocketWorker(shop, await shop.worker(), concurrency=9) for _ in range(3)]

    for _ in range(6):
        await shop.submit()  # and handed out by the same commit

    assert [len(dispatcher.given) for dispatcher in dispatchers] == [2, 2, 2]


async def test_a_cancelled_run_keeps_its_slot_until_its_code_has_stopped(shop) -> None:
    dispatcher = SocketWorker(shop, await shop.worker(), concurrency=1)
    await shop.submit(2)
    await dispatcher.wait_for(1)
    await shop.report(dispatcher.given[0], "started")
    await shop.steer(dispatcher.given[0], "cancel")
    await shop.submit()
    assert len(dispatcher.given) == 1

    await shop.report(dispatcher.given[0], "stopped")

    await dispatcher.wait_for(2)


async def test_what_a_broken_session_had_not_started_goes_back_to_the_queue_g8(shop) -> None:
    worker, other = await shop.worker(), await shop.worker()
    dispatcher = SocketWorker(shop, worker)
    await shop.submit(2)
    await dispatcher.wait_for(2)
    await shop.report(dispatcher.given[0], "started")
    shop.engine.close_slot(dispatcher.slot)

    assert await shop.engine.run(ReturnUnstarted(principal=ADMIN, worker_id=worker)) == 1

    [again] = await shop.claim(other, 5)
    assert (again.id, again.run_id, again.requeue_count) == (dispatcher.given[1].id, 1, 0)
    assert (await shop.get(dispatcher.given[0].id)).status is Status.RUNNING


async def test_the_writer_rests_when_a_slot_can_take_none_of_what_waits(shop, monkeypatch) -> None:
    await shop.register("other")
    SocketWorker(shop, await shop.worker(), jobs=frozenset({1}), concurrency=1)
    turns = 0
    original = shop.engine._turn

    async def counted(batch):
        nonlocal turns
        turns += 1
        return await original(batch)

    monkeypatch.setattr(shop.engine, "_turn", counted)
    await shop.submit(3, job="@global:tasks:other")
    for _ in range(50):
        await asyncio.sleep(0)

    assert turns <= 2


async def test_events_come_after_the_commit_in_order_and_each_once_g7_z16(shop) -> None:
    heard = []
    shop.engine.hub.listen(lambda batch: heard.extend((batch.seq, c.task.status, c.was) for c in batch.tasks))
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await asyncio.gather(shop.report(claimed, "started"), shop.report(claimed, "completed"))

    assert [(status, was) for _, status, was in heard] == [
        (Status.PENDING, None),
        (Status.CLAIMED, Status.PENDING),
        (Status.RUNNING, Status.CLAIMED),
        (Status.COMPLETED, Status.RUNNING),
    ]


async def test_a_listener_that_raises_neither_fails_the_commit_nor_keeps_others_from_hearing_g7(shop, caplog) -> None:
    heard = []

    def broken(batch) -> None:
        raise ValueError("a defect of a feed")

    shop.engine.hub.listen(broken)
    shop.engine.hub.listen(heard.append)

    await shop.submit()

    assert len(heard) == 1
    assert "a defect of a feed" in caplog.text

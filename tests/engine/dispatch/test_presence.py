"""Who owes a heartbeat is given no new task until it came, on the socket and over HTTP."""

import asyncio

import pytest

from tests.engine.conftest import ADMIN
from tests.engine.dispatch.test_dispatcher_waiting import SocketWorker
from treadle.wire.status import Status
from treadle_server.engine.commands import Beat, ExpireLeases, FindWorker, ReleaseHolds, Steer
from treadle_server.engine.dispatch.presence import LATE, Presence
from treadle_server.engine.rules import Rules

pytestmark = pytest.mark.anyio

BUSY, IDLE = 2.0, 15.0


async def beat(shop, worker, *, tasks=None):
    return await shop.engine.run(Beat(principal=ADMIN, worker_id=worker, tasks=tasks))


async def sit(shop, **details) -> SocketWorker:
    worker = await shop.engine.run(FindWorker(principal=ADMIN, worker_id=await shop.worker()))
    return SocketWorker(shop, worker.id, presence=Presence(worker.last_heartbeat), **details)


async def test_an_idle_worker_on_the_socket_that_owes_a_beat_is_given_nothing_until_it_came(shop, clock) -> None:
    """Section 11: a deaf worker got a task, which was lost for as long as its lease."""
    deaf = await sit(shop)
    clock.advance(IDLE + LATE + 0.1)

    await shop.submit(2)
    assert (deaf.given, shop.engine.dispatcher.has_taker) == ([], False)
    await beat(shop, deaf.slot.worker_id)

    await deaf.wait_for(2)


async def test_what_a_deaf_worker_is_not_given_goes_to_another(shop, clock) -> None:
    deaf, other = await sit(shop), await sit(shop)
    clock.advance(IDLE)
    await beat(shop, other.slot.worker_id)
    clock.advance(LATE + 0.1)

    await shop.submit(2)

    await other.wait_for(2)
    assert deaf.given == []


async def test_with_a_run_a_beat_is_owed_after_two_seconds(shop, clock) -> None:
    deaf = await sit(shop)
    clock.advance(IDLE)
    await shop.submit()
    await deaf.wait_for(1)
    clock.advance(BUSY + LATE)
    await shop.submit()
    await deaf.wait_for(2)  # it was idle until two seconds ago, and is not late
    await shop.run(deaf.given[0])
    clock.advance(0.1)

    await shop.submit()
    assert len(deaf.given) == 2
    await beat(shop, deaf.slot.worker_id)

    await deaf.wait_for(3)


@pytest.mark.parametrize("concurrency", [None, 2])
async def test_a_claim_over_http_is_a_sign_of_life_and_one_that_waits_is_answered_while_no_beat_is_owed(
    shop, clock, concurrency
) -> None:
    worker = await shop.worker(concurrency=concurrency)
    claims = [asyncio.ensure_future(shop.engine.claims.claim(ADMIN, worker, wait=20)) for _ in range(2)]
    await asyncio.sleep(0)
    await shop.submit(delay=3600)  # when this is answered, the claims wait
    clock.advance(IDLE + LATE + 0.1)

    await shop.submit()
    await shop.submit(delay=3600)
    assert not any(claim.done() for claim in claims)
    await beat(shop, worker)

    async with asyncio.timeout(20):
        done, waiting = await asyncio.wait(claims, return_when=asyncio.FIRST_COMPLETED)
    assert [len(claim.result()) for claim in done] == [1]
    for claim in waiting:
        claim.cancel()


async def test_over_http_a_worker_with_a_run_owes_a_beat_after_two_seconds(shop, clock) -> None:
    worker = await shop.worker(concurrency=5)
    await shop.submit()
    await shop.claim(worker)
    waiting = asyncio.ensure_future(shop.engine.claims.claim(ADMIN, worker, wait=20))
    await asyncio.sleep(0)
    await shop.submit(delay=3600)
    clock.advance(BUSY + LATE + 0.1)

    [task] = await shop.submit()
    await shop.submit(delay=3600)
    assert (await shop.get(task.id)).status is Status.PENDING
    await beat(shop, worker)

    async with asyncio.timeout(20):
        assert [one.id for one in await waiting] == [task.id]


async def read(shop, worker):
    return await shop.engine.run(_Seen(worker))


class _Seen:
    """Reads a worker and changes nothing."""

    rows = 1

    def __init__(self, worker) -> None:
        self.worker = worker

    def reads(self, reads) -> None:
        reads.workers.add(self.worker)

    def apply(self, work):
        return work.workers[self.worker]


async def test_who_lost_its_run_is_expected_as_if_it_had_it_until_it_beats(shop, clock) -> None:
    """Section 3: the expected beat grew from 2 to 15 s when the leases ended, and the dead looked alive."""
    deaf = await sit(shop, concurrency=5)
    await shop.submit(options={"lease_seconds": 1.0})
    await deaf.wait_for(1)
    clock.advance(1.1)
    await shop.engine.run(ExpireLeases())
    assert deaf.slot.held == {}
    assert (await read(shop, deaf.slot.worker_id)).owes_for_lost
    clock.advance(BUSY + LATE - 1)

    [task] = await shop.submit()
    await shop.submit(delay=3600)
    assert [(await shop.get(task.id)).status, len(deaf.given)] == [Status.PENDING, 1]
    await beat(shop, deaf.slot.worker_id)

    await deaf.wait_for(2)
    assert not (await read(shop, deaf.slot.worker_id)).owes_for_lost


async def test_who_let_a_hold_end_by_its_lease_is_expected_as_before_too(shop, clock) -> None:
    deaf = await sit(shop)
    await shop.submit(options={"lease_seconds": 1.0})
    await deaf.wait_for(1)
    await shop.report(deaf.given[0], "started")
    await shop.engine.run(Steer(principal=ADMIN, task_id=deaf.given[0].id, action="cancel"))
    clock.advance(1.1)

    assert await shop.engine.run(ReleaseHolds()) == 1

    assert (await read(shop, deaf.slot.worker_id)).owes_for_lost


async def test_of_a_server_that_loses_its_workers_sooner_beats_are_owed_sooner(shop, clock, monkeypatch) -> None:
    monkeypatch.setattr(shop.engine.dispatcher, "_worker_timeout", Rules(worker_timeout=3.0).worker_timeout)
    deaf = await sit(shop)
    clock.advance(1 + LATE + 0.1)

    await shop.submit()
    await shop.submit(delay=3600)

    assert deaf.given == []

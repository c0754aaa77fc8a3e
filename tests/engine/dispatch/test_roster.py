"""Many workers on one socket: a claim looks at few of them, and misses none that could take something."""

from collections import Counter

import pytest

from tests.engine.dispatch.test_slots import new_slot
from treadle.wire.ids import WorkerId
from treadle_server.engine.dispatch.roster import ENOUGH, Roster
from treadle_server.engine.dispatch.slots import WorkerSlot

pytestmark = pytest.mark.anyio

IDLE = {"prefetch": 0, "concurrency": 1}


def of_job(num: int, n: int = 0, **details) -> WorkerSlot:
    return new_slot(worker_id=WorkerId(f"{num}-{n}"), jobs=frozenset({num}), **(IDLE | details))


def roster_of(*slots: WorkerSlot) -> Roster:
    roster = Roster()
    for slot in slots:
        roster.add(slot)
    return roster


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Counter[WorkerId]:
    """How often each worker was asked for its room."""
    counted: Counter[WorkerId] = Counter()
    room = WorkerSlot.room

    def asked(slot: WorkerSlot) -> int:
        counted[slot.worker_id] += 1
        return room(slot)

    monkeypatch.setattr(WorkerSlot, "room", asked)
    return counted


async def test_workers_of_other_jobs_cost_a_claim_nothing(shop, looked_at: Counter[WorkerId]) -> None:
    """With 10,000 of them a lone task took the server 36 ms of processor time instead of 4."""
    worker = await shop.worker()
    await shop.submit()
    assert len(await shop.claim(worker)) == 1
    for n in range(50):
        shop.engine.open_slot(of_job(99, n))
    await shop.submit()
    assert len(await shop.claim(worker)) == 1
    looked_at.clear()

    await shop.submit()
    assert len(await shop.claim(worker)) == 1

    assert looked_at.total() < 10


def test_of_equal_idle_workers_a_claim_looks_at_no_more_than_can_be_given_something(
    looked_at: Counter[WorkerId],
) -> None:
    roster = roster_of(*(of_job(1, n) for n in range(3 * ENOUGH)), of_job(1, 9999, pool="gpu"))

    found = roster.takers({1}, lambda slot: slot.room() > 0)

    assert [slot.worker_id for slot in found] == [f"1-{n}" for n in range(ENOUGH)] + ["1-9999"]
    assert len(looked_at) == ENOUGH + 1


def test_an_idle_worker_behind_many_that_are_busy_is_found() -> None:
    """A task may be too heavy for all that have only some room left."""
    busy = [of_job(1, n, concurrency=2) for n in range(ENOUGH + 10)]
    for slot in busy:
        slot.hold({("other", 0): 1})
    idle = of_job(1, 9999, concurrency=2)

    assert roster_of(*busy, idle).takers({1}, lambda slot: slot.room() > 0) == [*busy, idle]


def test_workers_are_told_apart_by_whether_they_serve_one_of_the_jobs() -> None:
    roster = roster_of(first := of_job(1), second := of_job(2), both := new_slot(jobs=frozenset({1, 2})))

    def found(jobs: set[int] | None) -> list[WorkerSlot]:
        return roster.takers(jobs, lambda _slot: True)

    assert found({1}) == [first, both]
    assert found({2}) == [second, both]
    assert found({3}) == []
    assert found(None) == [first, second, both]


def test_who_left_is_in_turn_no_more_and_who_left_twice_only_once() -> None:
    old, new = of_job(1), of_job(1)
    roster = roster_of(old, new)

    roster.remove(old)
    roster.remove(old)

    assert list(roster) == list(roster.of(new.worker_id)) == [new]
    roster.remove(new)
    assert (list(roster), roster.of(new.worker_id)) == ([], ())

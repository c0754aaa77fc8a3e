"""What a slot knows of its worker: its pace, and what it holds when a transaction fails."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tests.engine.conftest import ADMIN, Shop
from tests.engine.dispatch.test_fairness import task
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import FindWorker, ReportMany, RunReport
from treadle_server.engine.dispatch.slots import (
    AHEAD,
    ENOUGH,
    FIRST_PACE_SECONDS,
    LONGEST_ROUND_TRIP,
    MOST_AHEAD,
    MOST_BYTES,
    PACE_SECONDS,
    WaitingClaim,
    WorkerSlot,
)
from treadle_server.engine.engine import Engine
from treadle_server.errors import StoreUnavailable
from treadle_server.store.base import LostUpdate
from treadle_server.store.postgres import clock as database_clock
from treadle_server.store.store import SqlStore
from treadle_server.store.transaction import hot

CONCURRENCY = 100


def new_slot(**details) -> WorkerSlot:
    fixed = {"worker_id": "w", "jobs": frozenset({1}), "pool": None, "concurrency": CONCURRENCY, "min_concurrency": 0}
    return WorkerSlot(**(fixed | {"prefetch": None, "deliver": lambda _tasks: None} | details))


def end(slot: WorkerSlot, weight: int, at: float) -> None:
    """Let a run of this weight end."""
    one = task(1, weight=weight)
    slot.reserve(one)
    slot.release((one.id, 0))
    slot.update_pace(at)


def test_the_first_pace_is_known_after_five_milliseconds_when_as_much_has_ended_as_runs_at_once() -> None:
    slot = new_slot()
    end(slot, 10, at=0.0)  # the clock starts: what ended before says nothing of a pace
    end(slot, 100, at=FIRST_PACE_SECONDS * 0.9)
    assert (slot.ahead, slot.room()) == (0, CONCURRENCY), "it is too early"

    end(slot, 20, at=FIRST_PACE_SECONDS * 8)

    assert slot.ahead == int(120 / (FIRST_PACE_SECONDS * 8) * AHEAD)
    assert slot.room() == CONCURRENCY + slot.ahead


@pytest.mark.parametrize(("concurrency", "ended"), [(CONCURRENCY, CONCURRENCY - 1), (1, ENOUGH - 1)])
def test_a_few_quick_tasks_say_nothing_before_fifty_milliseconds(concurrency: int, ended: int) -> None:
    slot = new_slot(concurrency=concurrency)
    end(slot, 1, at=0.0)

    end(slot, ended, at=PACE_SECONDS * 0.9)
    assert slot.ahead == 0
    end(slot, 0, at=PACE_SECONDS)

    assert slot.ahead == min(int(ended / PACE_SECONDS * AHEAD), MOST_AHEAD["sqlite"] * concurrency)


def test_each_later_pace_is_measured_over_fifty_milliseconds_and_counts_half() -> None:
    slot = new_slot()
    end(slot, 1, at=0.0)
    end(slot, 100, at=PACE_SECONDS)
    first = 100 / PACE_SECONDS

    end(slot, 40, at=PACE_SECONDS * 1.9)
    assert slot.ahead == int(first * AHEAD), "it is too early for another"
    end(slot, 10, at=PACE_SECONDS * 2)

    second = (first + 50 / PACE_SECONDS) / 2
    assert slot.ahead == int(second * AHEAD)
    end(slot, 0, at=PACE_SECONDS * 3.1)
    left = second * 0.5**1.1
    assert slot.ahead == int(left * AHEAD), "a worker that ends nothing is given half as much ahead each fifty ms"


def test_who_was_quick_and_is_at_something_long_is_given_nothing_ahead_when_what_waited_is_handed_back() -> None:
    slot = new_slot()
    end(slot, 1, at=0.0)
    end(slot, 400, at=PACE_SECONDS)
    assert slot.ahead == MOST_AHEAD["sqlite"] * CONCURRENCY

    end(slot, 9, at=PACE_SECONDS + 1.0)

    assert slot.ahead == 0


def give(slot: WorkerSlot, seqs: range, at: float) -> list[Task]:
    """Deliver these tasks of weight 1."""
    given = [task(seq) for seq in seqs]
    for one in given:
        slot.reserve(one)
    slot.begin(len(seqs), at)
    return given


def end_all(slot: WorkerSlot, given: list[Task], at: float) -> None:
    for one in given:
        slot.release((one.id, 0))
    slot.update_pace(at)


def test_the_pace_of_who_had_nothing_is_measured_from_what_it_is_given() -> None:
    slot = new_slot(concurrency=50)

    end_all(slot, give(slot, range(50), at=0.0), at=0.025)
    assert slot.ahead == int(50 / 0.025 * AHEAD), "with its first ends"

    end_all(slot, give(slot, range(50), at=64.0), at=64.0625)
    before = 0.5 ** (0.0625 / PACE_SECONDS)
    pace = before * 50 / 0.025 + (1 - before) * 50 / 0.0625
    assert slot.ahead == int(pace * AHEAD), "and a minute without work does not make it slow"


def test_a_worker_of_one_short_task_at_a_time_has_a_pace_too() -> None:
    slot = new_slot(concurrency=1)

    for nth in range(12):
        end_all(slot, give(slot, range(nth, nth + 1), at=nth * 0.005), at=nth * 0.005 + 0.005)

    assert slot.ahead == MOST_AHEAD["sqlite"], "though it has nothing whenever it is given something"


def test_what_is_given_to_who_has_something_does_not_start_the_measure_anew() -> None:
    slot = new_slot(concurrency=50)
    first = give(slot, range(50), at=0.0)
    more = give(slot, range(50, 100), at=0.02)

    end_all(slot, first[:1] + more, at=0.03)

    assert slot.ahead == int(51 / 0.03 * AHEAD)


def test_who_is_far_away_is_given_what_it_ends_on_the_way_too() -> None:
    """Its pace was that of the way, and so was what it got: eight tasks at a time, and then a wait for the next."""
    slot = new_slot()
    given = give(slot, range(20), at=0.0)

    slot.note_report(0.2)
    slot.note_report(0.21)
    end_all(slot, given, at=0.25)

    assert slot.ahead == int(20 / 0.25 * (AHEAD + 0.2)), "by the first that it said of them"


def test_what_is_said_of_what_it_had_before_tells_nothing_of_the_way() -> None:
    slot = new_slot()
    first = give(slot, range(10), at=0.0)
    slot.note_report(0.0)
    more = give(slot, range(10, 20), at=0.0)

    slot.note_report(0.2)
    end_all(slot, first + more, at=0.25)

    assert slot.ahead == int(20 / 0.25 * AHEAD)


def test_who_is_silent_for_long_is_not_taken_to_be_so_far_away() -> None:
    slot = new_slot()
    given = give(slot, range(20), at=0.0)

    slot.note_report(30.0)
    end_all(slot, given, at=30.0)

    assert slot.ahead == int(20 / 30 * (AHEAD + LONGEST_ROUND_TRIP))
    end(slot, 300, at=31.0)
    assert slot.ahead == int(slot._rate * (AHEAD + LONGEST_ROUND_TRIP))


def test_no_more_is_claimed_ahead_than_four_times_the_concurrency() -> None:
    slot = new_slot()
    end(slot, 1, at=0.0)

    end(slot, 1_000_000, at=FIRST_PACE_SECONDS)

    assert slot.ahead == MOST_AHEAD["sqlite"] * CONCURRENCY


def test_a_worker_with_a_minimum_or_a_prefetch_of_its_own_has_nothing_ahead_of_it_e6() -> None:
    slots = [new_slot(min_concurrency=5), new_slot(prefetch=7)]
    for slot in slots:
        end(slot, 1, at=0.0)
        end(slot, CONCURRENCY, at=FIRST_PACE_SECONDS)

    assert [slot.room() for slot in slots] == [CONCURRENCY, CONCURRENCY + 7]


def test_a_worker_is_given_so_much_payload_at_once_and_more_when_that_was_delivered() -> None:
    slot = new_slot(most_bytes=100)
    one, other = task(1), task(2)
    one.payload, other.payload = "x" * 60, "x" * 60
    slot.reserve(one)
    assert slot.spare() == CONCURRENCY - 1

    slot.reserve(other)
    assert (slot.spare(), slot.room()) == (0, 0), "the task that reaches the bound is the last one"

    slot.begin(2, at=0.0)
    assert slot.spare() == CONCURRENCY - 2
    third = task(3)
    third.payload = "x" * 100
    slot.reserve(third)
    assert slot.spare() == 0
    slot.withdraw([(third.id, 0)])
    assert slot.spare() == CONCURRENCY - 2, "nor does what was not committed count"


def test_checkpoints_count_among_what_a_worker_is_given_at_once() -> None:
    slot, one = new_slot(most_bytes=100), task(1)
    one.payload, one.checkpoint = "x" * 60, "x" * 60

    slot.reserve(one)

    assert slot.spare() == 0


async def test_a_claim_over_http_is_answered_with_so_much_at_once() -> None:
    claim = WaitingClaim("w", frozenset({1}), None, 100, asyncio.get_running_loop().create_future(), patient=True)
    one = task(1)
    one.payload = "x" * MOST_BYTES
    claim.reserve(one)
    assert (claim.spare(), claim.room()) == (0, 0)

    claim.withdraw([(one.id, 0)])

    assert claim.spare() > 0, "nor does what was not committed count"


def test_a_worker_whose_socket_is_crowded_is_given_nothing() -> None:
    crowded = True
    slot = new_slot(is_crowded=lambda: crowded)
    assert slot.room() == 0

    crowded = False

    assert slot.room() == CONCURRENCY


def test_what_is_taken_back_ended_for_the_pace_only_once() -> None:
    slot = new_slot()
    one = task(1, weight=30)
    end(slot, 1, at=0.0)
    slot.reserve(one)
    weight = slot.release((one.id, 0))
    slot.hold_again((one.id, 0), weight)
    assert (slot.used, slot.held) == (30, {(one.id, 0): 30})

    slot.release((one.id, 0))
    slot.update_pace(PACE_SECONDS)

    assert (slot.used, slot.held) == (0, {})
    assert slot.ahead == int(30 / PACE_SECONDS * AHEAD)


# In a transaction that fails


class Served:
    """A slot of one worker, and how its room stood whenever the writer took releases back."""

    def __init__(self, shop, monkeypatch) -> None:
        self.shop = shop
        self.delivered = asyncio.Queue()
        self.slot: WorkerSlot
        self.taken_back: list[tuple[int, int]] = []
        hold_again = shop.engine.dispatcher.hold_again

        def noted(freed) -> None:
            hold_again(freed)
            if freed:
                self.taken_back.append((len(freed), self.slot.used))

        monkeypatch.setattr(shop.engine.dispatcher, "hold_again", noted)

    async def sit(self, concurrency: int) -> None:
        worker = await self.shop.engine.run(FindWorker(principal=ADMIN, worker_id=await self.shop.worker()))
        self.slot = WorkerSlot(
            worker.id, frozenset(worker.jobs), None, concurrency, 0, 0, deliver=self.delivered.put_nowait
        )
        self.shop.engine.open_slot(self.slot)

    async def next(self):
        async with asyncio.timeout(20):
            return await self.delivered.get()

    async def complete(self, *runs) -> dict:
        return await self.say(*runs)

    async def say(self, *runs, kind="completed", starts=True) -> dict:
        said = [(run.id, run.run_id, RunReport(kind=kind, starts=starts)) for run in runs]
        reports = ReportMany(principal=ADMIN, worker_id=self.slot.worker_id, reports=said)
        return await self.shop.engine.run(reports)


@asynccontextmanager
async def served_alone(database: str, clock, monkeypatch):
    """Give a worker of two tasks at a time, of a server that alone writes to this PostgreSQL.

    Its clock is believed whatever it shows: a machine that stands still for a moment has nothing done a second time.
    """
    monkeypatch.setattr(database_clock, "WITHIN", 600.0)
    store = SqlStore(database)
    await store.open()
    await store.seek_exclusive()
    async with Engine(store, clock=clock).running() as engine:
        served = Served(Shop(engine), monkeypatch)
        await served.shop.register()
        await served.sit(concurrency=2)
        yield served
        engine.close_slot(served.slot)
    assert store.connections_checked_out() == 0
    await store.close()


def fail_once(monkeypatch, error: Exception) -> None:
    """Let the next claim that is written fail, after the reports of its transaction have freed their room."""
    claim = hot.claim

    async def failing(tx, claimed, counts):
        monkeypatch.setattr(hot, "claim", claim)
        raise error

    monkeypatch.setattr(hot, "claim", failing)


def lose_answer_once(monkeypatch, store) -> None:
    """Let the next commit be done, and its answer be lost."""
    write = store.write

    @asynccontextmanager
    async def unheard(**how):
        monkeypatch.setattr(store, "write", write)
        async with write(**how) as tx:
            yield tx
        raise StoreUnavailable("it is not known whether it was done")

    monkeypatch.setattr(store, "write", unheard)


@pytest.fixture
async def served(shop, monkeypatch) -> Served:
    served = Served(shop, monkeypatch)
    await served.sit(concurrency=5)
    await shop.submit(2, options={"weight": 2})
    await shop.submit(options={"weight": 3})
    return served


@pytest.mark.anyio
async def test_what_a_lost_transaction_freed_is_held_again_and_freed_once_by_the_next_try_e5(
    served, monkeypatch
) -> None:
    one, other = await served.next()
    assert served.slot.used == 4
    fail_once(monkeypatch, LostUpdate("another server was faster"))

    assert await served.complete(one) == {}

    [third] = await served.next()
    assert served.taken_back == [(1, 4)], "in between it held what it had held before"
    assert served.slot.used == 5
    assert served.slot.held == {(other.id, 0): 2, (third.id, 0): 3}
    assert await served.complete(other, third) == {}
    assert (served.slot.used, served.slot.held) == (0, {})


@pytest.mark.anyio
async def test_a_slot_still_holds_what_its_worker_could_not_report_while_the_database_was_away_g3(
    served, monkeypatch
) -> None:
    """G3, E5: nothing was changed; the same report, told again, frees the room once."""
    one, other = await served.next()
    fail_once(monkeypatch, StoreUnavailable("the database does not answer", retry_after=1))

    with pytest.raises(StoreUnavailable):
        await served.complete(one)

    assert served.taken_back == [(1, 4)]
    assert (await served.shop.get(one.id)).status is Status.CLAIMED
    assert await served.complete(one) == {}
    [third] = await served.next()
    assert served.slot.used == 5
    assert served.slot.held == {(other.id, 0): 2, (third.id, 0): 3}


@pytest.mark.anyio
async def test_a_commit_that_fails_takes_back_what_was_freed_and_what_was_handed_out(served, monkeypatch) -> None:
    one, other = await served.next()
    store = served.shop.engine.store
    write = store.write

    def broken(**how):
        monkeypatch.setattr(store, "write", write)
        return _failing_commit(partial(write, **how))

    monkeypatch.setattr(store, "write", broken)

    with pytest.raises(StoreUnavailable):
        await served.complete(one)

    assert served.taken_back == [(1, 4)], "without the weight of what it was about to be given"
    assert served.delivered.empty()
    assert await served.complete(one, other) == {}
    assert [run.weight for run in await served.next()] == [3]
    assert served.slot.used == 3


def _failing_commit(write):
    @asynccontextmanager
    async def failing():
        async with write() as tx:
            yield tx
            raise StoreUnavailable("the disk is full")

    return failing()


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["completed", "failed"])
async def test_a_report_that_is_told_again_frees_the_room_that_its_first_telling_could_not_e5(
    served, monkeypatch, kind
) -> None:
    """G1, E5: the commit was done, and nobody was told; the worker's room came back only with a new connection."""
    one, other = await served.next()
    said = [(one.id, 0, RunReport(kind=kind, starts=True))]
    report = ReportMany(principal=ADMIN, worker_id=served.slot.worker_id, reports=said)
    lose_answer_once(monkeypatch, served.shop.engine.store)
    with pytest.raises(StoreUnavailable):
        await served.shop.engine.run(report)
    assert (one.id, 0) in served.slot.held

    assert await served.shop.engine.run(report) == {}

    [third] = await served.next()
    assert served.slot.held == {(other.id, 0): 2, (third.id, third.run_id): 3}

"""What is due soon is read before it is: whatever happens meanwhile, a fresh read at that time would find the same."""

import asyncio
import random
from collections import Counter
from datetime import timedelta

import pytest

from tests.engine.conftest import ADMIN, Shop
from treadle.wire.status import Status
from treadle_server.domain.dependencies import Need
from treadle_server.engine import due_ahead, reading
from treadle_server.engine.commands import Edit, LookAhead, PromoteDue, StepReport
from treadle_server.errors import Refused
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tasks
from treadle_server.store.transaction.promotions import due_tasks, due_tasks_by_seq

pytestmark = pytest.mark.anyio

SECONDS = 10


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few tasks are many."""
    for name, value in {"LEAST": 3, "MOST": 20, "PORTION": 4}.items():
        monkeypatch.setattr(due_ahead, name, value)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often what is due was read when it was, by whether that was known already."""
    found: Counter[str] = Counter()
    taken = reading._due

    async def take(work, most):
        """Compare what is known with what every row says at that moment."""
        fresh, free = await due_tasks(work.tx, work.now, most)
        rows, free_rows = await due_tasks_by_seq(work.tx, list(work.due_ahead._kept))
        assert work.due_ahead._kept == {task.seq: (task, task.seq in free_rows) for task in rows}
        was_known = work.due_ahead._until is not None

        due, frees = await taken(work, most)

        found["known" if was_known and work.due_ahead._until is not None else "read"] += 1
        assert [task.due_at for task in due] == [task.due_at for task in fresh]
        if len(fresh) < most:
            assert sorted(due, key=lambda task: task.seq) == sorted(fresh, key=lambda task: task.seq)
            assert frees == free
        return due, frees

    monkeypatch.setattr(reading, "_due", take)
    return found


async def alone(shop: Shop) -> None:
    """Have it be the only one that writes."""
    await shop.engine.store.seek_exclusive()
    await shop.submit()


async def look_ahead(shop: Shop, clock) -> int:
    """Read all that is due soon, and return how many portions there were."""
    for n in range(1, 100):
        if not await shop.engine.run(LookAhead(clock.now() + timedelta(seconds=SECONDS))):
            return n
    raise AssertionError("there is always more")


def asleep(shop: Shop, clock, count: int, **details):
    return shop.submit(count, due_at=clock.now() + timedelta(seconds=SECONDS), **details)


async def test_many_that_are_due_are_promoted_as_they_were_read_before_e1(shop, clock, reads) -> None:
    await alone(shop)
    slept = await asleep(shop, clock, 11)
    assert await look_ahead(shop, clock) == 3
    clock.advance(SECONDS)

    assert await shop.engine.run(PromoteDue()) == 11

    assert reads == {"known": 1}
    found = [await shop.get(task.id) for task in slept]
    assert {(task.status, task.version, task.updated_at) for task in found} == {(Status.PENDING, 2, clock.now())}
    worker = await shop.worker()
    assert len(await shop.claim(worker, 20)) == 12


async def test_few_are_read_when_they_are_due_e1(shop, clock, reads) -> None:
    await alone(shop)
    await asleep(shop, clock, 2)
    assert await look_ahead(shop, clock) == 1
    clock.advance(SECONDS)

    assert await shop.engine.run(PromoteDue()) == 2
    assert reads == {"read": 1}


async def test_what_is_beyond_the_bound_is_read_when_it_is_due_e1(shop, clock, reads, monkeypatch) -> None:
    monkeypatch.setattr(PromoteDue, "rows", 8)
    monkeypatch.setattr("treadle_server.engine.commands.sweeps.MOST_DUE", 8)
    await alone(shop)
    await asleep(shop, clock, 30)
    assert await look_ahead(shop, clock) == 5
    clock.advance(SECONDS)

    promoted = [await shop.engine.run(PromoteDue()) for _ in range(5)]

    assert promoted == [8, 8, 8, 6, 0]
    assert reads == {"known": 2, "read": 3}


async def test_large_payloads_are_read_when_they_are_due_e1(shop, clock, reads, monkeypatch) -> None:
    monkeypatch.setattr(due_ahead, "MOST_BYTES", 50)
    await alone(shop)
    await asleep(shop, clock, 12)
    assert await look_ahead(shop, clock) == 2
    clock.advance(SECONDS)

    assert await shop.engine.run(PromoteDue()) == 12
    assert reads == {"read": 1}


async def test_one_that_is_cancelled_while_others_are_read_is_not_due_e1(shop, clock, reads) -> None:
    await alone(shop)
    slept = await asleep(shop, clock, 6)
    assert await shop.engine.run(LookAhead(clock.now() + timedelta(seconds=SECONDS)))
    await shop.steer(slept[5], "cancel")
    await look_ahead(shop, clock)
    clock.advance(SECONDS)

    assert await shop.engine.run(PromoteDue()) == 5
    assert reads == {"known": 1}


@pytest.mark.parametrize("kind", ["new", "earlier", "watched"])
async def test_what_is_scheduled_or_awaited_meanwhile_ends_what_is_known_e1_f2(shop, clock, reads, kind) -> None:
    await alone(shop)
    slept = await asleep(shop, clock, 5)
    later = await shop.submit(1, due_at=clock.now() + timedelta(seconds=5 * SECONDS))
    await look_ahead(shop, clock)
    soon = clock.now() + timedelta(seconds=1)

    if kind == "new":
        await shop.submit(1, due_at=soon)
    elif kind == "earlier":
        edit = Edit(principal=ADMIN, task_id=later[0].id, changes={"scheduled_at": soon})
        await shop.engine.run(edit)
    else:
        await _wait_for(shop, slept[2])
    clock.advance(SECONDS)

    assert await shop.engine.run(PromoteDue()) == 5 + (kind != "watched")
    assert reads == {"read": 1}


async def _wait_for(shop: Shop, task) -> None:
    await shop.submit(needs=[Need(task.id, [("before", None)])])


async def test_where_others_write_nothing_is_known_e1(shop, clock, reads, other) -> None:
    await alone(shop)
    [first, *_] = await asleep(shop, clock, 5)
    await look_ahead(shop, clock)
    await _move(other, first, clock.now() + timedelta(seconds=5 * SECONDS))
    clock.advance(SECONDS)

    assert await shop.engine.run(PromoteDue()) == 4
    assert reads == {"read": 1}


async def test_a_batch_that_fails_ends_what_is_known_e1(shop, clock, reads, monkeypatch) -> None:
    await alone(shop)
    slept = await asleep(shop, clock, 5)
    await look_ahead(shop, clock)

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as broken, pytest.raises(RuntimeError, match="broken"):
        broken.setattr(shop.engine, "_note_claimable", fail)
        await shop.steer(slept[0], "cancel")
    clock.advance(SECONDS)

    assert await shop.engine.run(PromoteDue()) == 5
    assert reads == {"read": 1}


async def _move(other: SqlStore, task, due_at) -> None:
    async with other.write() as tx:
        changed = {"due_at": due_at, "version": tasks.c.version + 1}
        await tx.connection.execute(tasks.update().where(tasks.c.id == task.id).values(changed))


class Walk:
    """Random requests of every kind that changes what is scheduled, several at once so that they share a batch."""

    def __init__(self, shop: Shop, clock, other: SqlStore, seed: int) -> None:
        self.shop, self.clock, self.other = shop, clock, other
        self.random = random.Random(seed)
        self.known = []

    async def step(self) -> None:
        self.clock.advance(self.random.choice([0, 0, 0.1, 0.5, 2]))
        if self.random.random() < 0.9:
            await self.shop.engine.store.seek_exclusive()
        requests = [self.request() for _ in range(self.random.randint(1, 4))]
        for outcome in await asyncio.gather(*requests, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Refused):
                raise outcome

    async def request(self) -> None:
        kinds = {"submit": 0.3, "late": 2, "edit": 0.3, "steer": 0.7, "wait": 0.2, "work": 1, "look": 6, "promote": 3,
                 "stranger": 0.1}  # fmt: skip
        [kind] = self.random.choices(list(kinds), list(kinds.values()))
        await getattr(self, f"_{kind}")()

    async def _put(self, seconds: float) -> None:
        due_at = self.clock.now() + timedelta(seconds=seconds)
        target = self.random.choice([None] * 6 + ["a"])
        self.known += await self.shop.submit(self.random.choice([1, 5, 12]), due_at=due_at, target=target)

    async def _submit(self) -> None:
        await self._put(self.random.choice([0, 0.5]))

    async def _late(self) -> None:
        await self._put(self.random.choice([2, 2, 5]))

    async def _edit(self) -> None:
        if self.known:
            due_at = self.clock.now() + timedelta(seconds=self.random.choice([-5, 1, 2, 9]))
            changes = self.random.choice([{"priority": 1}, {"scheduled_at": due_at}, {"target": "a"}])
            task = self.random.choice(self.known[-40:])
            await self.shop.engine.run(Edit(principal=ADMIN, task_id=task.id, changes=changes))

    async def _steer(self) -> None:
        if self.known:
            await self.shop.steer(
                self.random.choice(self.known[-40:]), self.random.choice(["cancel", "pause", "rerun"])
            )

    async def _wait(self) -> None:
        if self.known:
            await _wait_for(self.shop, self.random.choice(self.known[-40:]))

    async def _work(self) -> None:
        for task in await self.shop.claim(self.worker, self.random.choice([1, 5])):
            seconds = self.random.choice([0.2, 4.0, 4.0, 4.0, 4.0])
            if self.random.random() < 0.5:
                await self.shop.run(task, "suspended", step=StepReport(name="sleep", seconds=seconds))
            else:
                await self.shop.run(task, "failed", error="boom", retry_after=seconds)

    async def _look(self) -> None:
        await self.shop.engine.run(LookAhead(self.clock.now() + timedelta(seconds=1)))

    async def _promote(self) -> None:
        await self.shop.engine.run(PromoteDue())

    async def _stranger(self) -> None:
        if self.known and not self.shop.engine.store.connections_checked_out():
            await _move(self.other, self.random.choice(self.known[-40:]), self.clock.now() + timedelta(seconds=1))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.crossed) for n in range(2, 12))])
async def test_what_is_known_is_what_a_fresh_read_finds_e1(shop, clock, reads, other, seed, monkeypatch) -> None:
    monkeypatch.setattr("treadle_server.engine.commands.sweeps.MOST_DUE", 6)
    walk = Walk(shop, clock, other, seed)
    walk.worker = await shop.worker(concurrency=1000)

    for _ in range(150):
        await walk.step()

    assert reads["known"] > 5
    assert reads["read"] > 10

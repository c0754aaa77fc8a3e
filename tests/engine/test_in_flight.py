"""PostgreSQL: a batch is applied while the one before it is written, and does not outlive that one's failure."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from tests.conftest import FakeClock
from tests.engine.conftest import ADMIN
from tests.engine.dispatch.test_slots import Served, served_alone
from tests.engine.fast_path.test_reports_turns import rows_of
from tests.waiting import turns, until
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import FindWorker, PromoteDue
from treadle_server.engine.dispatch.head_cache import HeadCache
from treadle_server.engine.hub import Batch
from treadle_server.engine.in_flight import InFlight
from treadle_server.errors import StoreUnavailable
from treadle_server.store.base import LostUpdate
from treadle_server.store.postgres.connection import DirectConnection
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tasks

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def served(postgres_database: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A worker of two tasks at a time; its server is the only one that writes, and knows the head of the queue.

    It never reads on behind it: a batch in flight has sent nothing before its commit.
    """
    monkeypatch.setattr(HeadCache, "runs_short", False)
    async with served_alone(postgres_database, clock, monkeypatch) as served:
        await served.shop.submit(30)
        for _ in range(2):
            await served.complete(*await served.next())
        yield served


class Gate:
    """Stops the next commit, once it is closed, until it is told how that ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = asyncio.Event()
        self._ends: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._patch = monkeypatch

    def close(self) -> None:
        """Stop the next commit."""
        commit = DirectConnection.commit

        async def stopped(connection: DirectConnection) -> None:
            self._patch.setattr(DirectConnection, "commit", commit)
            self.reached.set()
            if (error := await self._ends) is not None:
                raise error
            await commit(connection)

        self._patch.setattr(DirectConnection, "commit", stopped)

    def open(self, error: Exception | None = None) -> None:
        """Let it pass, or fail."""
        if not self._ends.done():
            self._ends.set_result(error)


@pytest.fixture
async def gate(served: Served, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.open()


def later(work: Any) -> "asyncio.Task[Any]":
    return asyncio.ensure_future(work)


async def first_in_flight(served: Served, gate: Gate) -> tuple[list[Task], Any, Any]:
    """Let the first run's completion be written, and the second one's be applied meanwhile."""
    runs = await served.next()
    gate.close()
    one = later(served.complete(runs[0]))
    async with asyncio.timeout(10):
        await gate.reached.wait()
        other = later(served.complete(runs[1]))
        await until(lambda: (runs[1].id, runs[1].run_id) not in served.slot.held, pause=0)
    return runs, one, other


async def statuses(served: Served, runs: list[Task]) -> list[Status]:
    """Return how the tasks stand in the database."""
    kept = await rows_of(served)
    return [kept[task.id].status for task in runs]


async def test_a_batch_is_applied_while_the_one_before_is_written_and_asks_nothing_until_it_is(
    served: Served, gate: Gate
) -> None:
    runs, one, other = await first_in_flight(served, gate)
    # The database is asked here, and so could have been by the batch meanwhile.
    assert await statuses(served, runs) == [Status.CLAIMED] * 2
    assert (one.done(), other.done(), served.delivered.empty()) == (False, False, True)
    assert served.slot.used == 2, "each has its next task already"

    gate.open()

    assert (await one, await other) == ({}, {})
    assert await statuses(served, runs) == [Status.COMPLETED] * 2
    following = [*await served.next(), *await served.next()]
    assert [task.seq for task in following] == [runs[1].seq + 1, runs[1].seq + 2]
    assert served.slot.held == {(task.id, task.run_id): 1 for task in following}


async def test_new_tasks_are_taken_too_while_a_batch_is_written(served: Served, gate: Gate) -> None:
    [run, _] = await served.next()
    gate.close()
    one = later(served.complete(run))
    await gate.reached.wait()

    other = later(served.shop.submit())
    await turns()
    assert not served.shop.engine._queue
    assert not other.done()
    gate.open()

    assert await one == {}
    [new] = await other
    assert await statuses(served, [run, new]) == [Status.COMPLETED, Status.PENDING]


@pytest.mark.usefixtures("no_collector")
async def test_batches_that_are_over_are_let_go_of_with_their_tasks_though_each_was_followed(
    served: Served, gate: Gate
) -> None:
    _, one, other = await first_in_flight(served, gate)
    flights = [weakref.ref(thing) for thing in gc.get_objects() if isinstance(thing, InFlight)]
    assert len(flights) == 2, "the one that is written, and the one behind it"

    gate.open()

    assert (await one, await other) == ({}, {})
    await until(lambda: not any(flight() for flight in flights), pause=0)


LOST = LostUpdate("another server was faster")
GONE = OperationalError("COMMIT", None, Exception("the connection is gone"))


@pytest.mark.parametrize("error", [None, LOST, GONE], ids=["committed", "overtaken", "unavailable"])
async def test_who_wakes_is_promoted_behind_a_batch_that_is_being_written_however_that_ends_e1(
    served: Served, gate: Gate, clock: FakeClock, error: Exception | None
) -> None:
    [sleeper] = await served.shop.submit(due_at=clock.now() + timedelta(seconds=5))
    clock.advance(5)
    [run, _] = await served.next()
    gate.close()
    one = later(served.complete(run))
    await gate.reached.wait()

    promoted = later(served.shop.engine.run(PromoteDue()))
    await until(lambda: not served.shop.engine._queue, pause=0)
    assert not promoted.done()
    gate.open(error)

    answer, count = await asyncio.gather(one, promoted, return_exceptions=True)
    assert count == 1
    assert isinstance(answer, StoreUnavailable) if error is GONE else answer == {}
    ended = Status.CLAIMED if error is GONE else Status.COMPLETED
    assert await statuses(served, [run, sleeper]) == [ended, Status.PENDING]


async def test_another_command_waits_in_the_queue(served: Served, gate: Gate) -> None:
    """It would have to read in the middle: those that come meanwhile are its batch."""
    run, second = await served.next()
    gate.close()
    one = later(served.complete(run))
    await gate.reached.wait()
    looked = later(served.shop.engine.run(FindWorker(principal=ADMIN, worker_id=served.slot.worker_id)))
    done = later(served.complete(second))
    await turns()
    assert served.shop.engine._queue
    assert (second.id, second.run_id) in served.slot.held, "nor does what comes after it overtake it"

    gate.open()

    assert (await one, await done) == ({}, {})
    assert (await looked).id == served.slot.worker_id


@pytest.mark.parametrize("error", [LOST, RuntimeError("a defect"), GONE], ids=["overtaken", "defect", "unavailable"])
async def test_when_a_batch_fails_what_was_applied_on_top_of_it_is_done_anew_after_it(
    served: Served, gate: Gate, error: Exception
) -> None:
    runs, one, other = await first_in_flight(served, gate)
    told: list[Batch] = []
    served.shop.engine.hub.listen(told.append)

    gate.open(error)

    answers = await asyncio.gather(one, other, return_exceptions=True)
    assert answers[1] == {}
    if error is LOST:
        assert answers[0] == {}
        ended = [change.task.id for batch in told for change in batch.tasks if change.task.status is Status.COMPLETED]
        assert ended == [task.id for task in runs], "in the order in which they came"
    else:
        assert isinstance(answers[0], StoreUnavailable if error is GONE else RuntimeError)
        assert await served.complete(runs[0]) == {}
    assert await statuses(served, runs) == [Status.COMPLETED] * 2
    following: list[Task] = []
    while len(following) < 2:
        following += await served.next()
    assert served.delivered.empty()
    assert served.slot.held == {(task.id, task.run_id): 1 for task in following}
    assert served.slot.used == 2, "the room of none was freed or taken twice"
    assert {task.run_id for task in following} == {0} or error is GONE


async def test_a_server_that_goes_away_writes_what_is_in_flight(served: Served, gate: Gate) -> None:
    runs, one, other = await first_in_flight(served, gate)

    asyncio.get_running_loop().call_soon(gate.open)

    assert await asyncio.gather(one, other) == [{}, {}]
    assert await statuses(served, runs) == [Status.COMPLETED] * 2


async def test_what_was_applied_from_memory_is_not_sent_when_another_has_written_meanwhile(
    served: Served, gate: Gate, postgres_database: str
) -> None:
    """Though the server is the only writer again when it comes to send it."""
    runs, one, other = await first_in_flight(served, gate)
    last = max((await rows_of(served)).values(), key=lambda task: task.seq)
    stranger = SqlStore(postgres_database)
    await stranger.open()
    async with stranger.write() as tx:
        await tx.connection.execute(sa.update(tasks).where(tasks.c.seq == last.seq).values(priority=9))
    await stranger.close()
    async with served.shop.engine.store.write() as tx:
        assert not tx.is_exclusive
    await served.shop.engine.store.seek_exclusive()

    gate.open()

    assert (await one, await other) == ({}, {})
    assert await statuses(served, runs) == [Status.COMPLETED] * 2
    assert (await served.next())[0].id == last.id


async def test_a_batch_is_told_after_the_one_before_however_soon_it_is_written_g7() -> None:
    """G7: what one commit changed is told before what the next one did."""
    before = InFlight([])
    flight = InFlight([], before)
    told: list[str] = []

    async def write(one: InFlight, name: str) -> None:
        await one.wait_for_previous()
        await one.committed()
        told.append(name)
        one.end()

    await asyncio.gather(write(before, "first"), write(flight, "second"))

    assert told == ["first", "second"]


async def test_the_batch_that_follows_is_sent_before_the_one_before_is_told() -> None:
    before = InFlight([])
    flight = InFlight([], before)
    seen: list[str] = []

    async def write() -> None:
        await before.committed()
        seen.append("the first is told")
        before.end()

    async def send() -> None:
        await flight.wait_for_previous()
        seen.append("the second is sent")

    await asyncio.gather(send(), write())

    assert seen == ["the second is sent", "the first is told"]

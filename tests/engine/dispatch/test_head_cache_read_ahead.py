"""PostgreSQL: heads that are read on while their batch is written, and what the next one changes meanwhile."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from tests.conftest import FakeClock
from tests.engine.conftest import ADMIN
from tests.engine.dispatch.test_slots import Served, served_alone
from tests.waiting import until
from treadle.wire.ids import TaskId
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Edit
from treadle_server.engine.dispatch import head_cache as head_cache_module
from treadle_server.engine.dispatch.head_cache import CachedHead
from treadle_server.errors import Refused
from treadle_server.store.tables import tasks

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

KEPT = 12
"""Tasks that are kept of a lane in these tests: a worker of two at a time soon has them read on."""


@pytest.fixture
async def served(postgres_database: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A worker of two tasks at a time, of a server that alone writes and keeps little of a queue."""
    monkeypatch.setattr(head_cache_module, "MOST_OF_LANE", KEPT)
    async with served_alone(postgres_database, clock, monkeypatch) as served:
        yield served


class Reads:
    """Counts what is read on, and stops it, when it is told to, until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.under_way = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self._read = head_cache_module.heads_after
        monkeypatch.setattr(head_cache_module, "heads_after", self.read)

    async def read(self, *details: Any) -> dict[int, list[Task]]:
        found = await self._read(*details)
        self.count += 1
        self.under_way.set()
        await self.may_end.wait()
        return found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


def kept_by(served: Served) -> CachedHead:
    [cached] = served.shop.engine.dispatcher.head_cache._heads.values()
    return cached


async def queue_of(served: Served) -> list[TaskId]:
    """Return what is pending, in its order, as the database says."""
    order = (tasks.c.priority.desc(), tasks.c.due_at, tasks.c.seq)
    async with served.shop.engine.store.read() as connection:
        found = await connection.execute(sa.select(tasks.c.id).where(tasks.c.status == "pending").order_by(*order))
        return list(found.scalars())


def is_writing() -> bool:
    """Return whether a batch is in flight."""
    return any(one.get_name() == "batch" for one in asyncio.all_tasks())


async def is_well_known(served: Served) -> None:
    """Wait for the writer, and compare what it keeps of the queue with the queue."""
    engine = served.shop.engine
    await until(lambda: not (engine._queue or is_writing()))
    for cached in engine.dispatcher.head_cache._heads.values():
        queue = await queue_of(served)
        ids = [task.id for task in cached.tasks]
        assert ids == (queue if cached.is_all else queue[: len(ids)])


async def first_read(served: Served, reads: Reads) -> list[Task]:
    """Have tasks completed until a read ahead is under way and is stopped; return what was handed out last."""
    reads.may_end.clear()
    while True:
        runs = await served.next()
        waits = [asyncio.ensure_future(wait) for wait in (served.complete(*runs), reads.under_way.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if reads.under_way.is_set():
            return runs
        waits[1].cancel()


async def test_a_queue_that_runs_short_is_read_on_before_a_claim_has_to_wait_for_it(
    served: Served, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = [task.id for task in await served.shop.submit(40)]
    handed_out: list[TaskId] = []
    read = head_cache_module.heads
    read_in_claims = 0

    async def counted(*details: Any) -> dict[int, list[Task]]:
        nonlocal read_in_claims
        read_in_claims += 1
        return await read(*details)

    monkeypatch.setattr(head_cache_module, "heads", counted)
    while len(handed_out) < 40:
        runs = await served.next()
        handed_out += [run.id for run in runs]
        await served.complete(*runs)

    assert handed_out == submitted
    assert reads.count >= 3
    assert read_in_claims <= 2, "only until something is known of the queue"


async def test_what_kept_a_queue_from_being_read_on_is_told_in_one_line(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A second line named a page about SQLAlchemy's errors."""
    caplog.set_level("INFO", head_cache_module.__name__)

    async def refused(*_: Any) -> dict[int, list[Task]]:
        raise sa.exc.DBAPIError("SELECT", None, asyncpg.TooManyConnectionsError("too many connections for role"))

    monkeypatch.setattr(head_cache_module, "heads_after", refused)
    await served.shop.submit(40)
    while not caplog.messages:
        await served.complete(*await served.next())

    assert caplog.messages[0].startswith("could not read ahead in the queues: the database accepts no more connections")
    assert "\n" not in caplog.messages[0]


@pytest.mark.parametrize("priority", [1, 0, -1], ids=["before all", "among them", "behind all"])
@pytest.mark.parametrize("behind", [0, 30], ids=["all is read", "more stands behind"])
async def test_what_is_put_in_while_a_queue_is_read_on_has_its_place(
    served: Served, reads: Reads, priority: int, behind: int
) -> None:
    # Those of low priority stand behind what is put in with the usual one.
    await served.shop.submit(10)
    await served.shop.submit(5 + behind, options={"priority": -1})
    await first_read(served, reads)

    new = asyncio.ensure_future(served.shop.submit(2, options={"priority": priority}))
    await until(lambda: not served.shop.engine._queue, pause=0)
    reads.may_end.set()
    await new

    await is_well_known(served)
    expected = await queue_of(served)
    got = []
    while len(got) < len(expected):
        runs = await served.next()
        got += [run.id for run in runs if run.id in expected]
        await served.complete(*runs)
    assert got == expected


async def test_a_queue_that_was_changed_while_it_was_read_on_is_read_anew(served: Served, reads: Reads) -> None:
    await served.shop.submit(30)
    await first_read(served, reads)
    cached = kept_by(served)

    served.shop.engine.dispatcher.head_cache.drop(list(served.shop.engine.dispatcher.head_cache._heads))
    count = len(cached.tasks)
    reads.may_end.set()

    await is_well_known(served)
    assert len(cached.tasks) == count, "nothing is put behind what was forgotten"


async def test_tasks_that_others_may_block_are_not_read_ahead_l2(served: Served, reads: Reads) -> None:
    """L2: a target's tasks are looked at when they are claimed."""
    await served.shop.submit(16)
    await served.shop.submit(4, target="robot")
    await first_read(served, reads)
    reads.may_end.set()

    await until(lambda: not is_writing())
    assert not served.shop.engine.dispatcher.head_cache._heads


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.crossed) for n in (1, 2, 3, 4))])
async def test_what_is_kept_is_the_queue_whatever_happens_while_it_is_read_on(
    served: Served, reads: Reads, seed: int
) -> None:
    draw = random.Random(seed)
    await served.shop.submit(160)
    held: list[Task] = []

    async def submit() -> None:
        await served.shop.submit(draw.choice([1, 3]), options={"priority": draw.choice([0, 0, 0, -1, 1])})

    async def edit() -> None:
        known = [task.id for one in served.shop.engine.dispatcher.head_cache._heads.values() for task in one.tasks]
        if known and draw.random() < 0.3:
            with suppress(Refused):  # it may have been claimed meanwhile
                changes = {"priority": draw.choice([-1, 0, 1])}
                await served.shop.engine.run(Edit(principal=ADMIN, task_id=draw.choice(known), changes=changes))

    for _ in range(100):
        while not served.delivered.empty():
            held += served.delivered.get_nowait()
        others = [other() for other in draw.choice([[], [], [], [submit], [submit, edit]])]
        await asyncio.gather(*(served.say(run) for run in held), *others)
        held = []
        await is_well_known(served)

    assert reads.count > 10

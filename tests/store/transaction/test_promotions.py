"""PostgreSQL: tasks whose time has come are promoted, and claimed at once, in one statement that stands alone."""

import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import FakeClock
from tests.engine.conftest import ADMIN
from tests.engine.dispatch.test_slots import Served, served_alone
from tests.engine.fast_path.test_reports_turns import rows_of
from tests.store.recorded import recording
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.engine import writing
from treadle_server.engine.commands import Beat, ExpireLeases, PromoteDue, StepReport
from treadle_server.store.base import Tx
from treadle_server.store.postgres import writer
from treadle_server.store.transaction import promotions

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

SECONDS = 10


@pytest.fixture
async def served(postgres_database: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A worker of two tasks at a time; its server is the only one that writes, and keeps its plans."""
    monkeypatch.setattr(writer, "PLANS_LAST", 3600.0)
    async with served_alone(postgres_database, clock, monkeypatch) as served:
        yield served


async def asleep(served: Served, clock: FakeClock, count: int) -> list[Task]:
    """Put in tasks that sleep, the last of which has run before; by its claim it is known that the queue is empty."""
    sleepers = await served.shop.submit(count - 1, due_at=clock.now() + timedelta(seconds=SECONDS))
    sleepers += await served.shop.submit(1)
    [run] = await served.next()
    await served.shop.run(run, "suspended", step=StepReport(name="sleep", seconds=float(SECONDS)))
    return sleepers


async def test_who_wakes_and_is_waited_for_is_claimed_where_it_sleeps_by_a_statement_that_stands_alone_e1(
    served: Served, clock: FakeClock
) -> None:
    sleepers = await asleep(served, clock, 2)
    sleepers += await asleep(served, clock, 4)
    clock.advance(SECONDS)

    with recording(served.shop.engine.store) as sent:
        assert await served.shop.engine.run(PromoteDue()) == 6
        claimed = [*await served.next()]

    about_tasks = [text for text in sent if "tasks" in text]
    assert [text[:6] for text in about_tasks] == ["SELECT", "WITH c"], "what is due, and what becomes of it"
    assert "believed" in about_tasks[1], "it needs no transaction"
    kept = await rows_of(served)
    assert [task.id for task in claimed] == [task.id for task in sleepers[:2]]
    assert [kept[task.id] for task in claimed] == claimed
    assert [(task.reason, task.status) for task in claimed] == [(None, Status.CLAIMED)] * 2
    assert [(kept[task.id].status, kept[task.id].version) for task in sleepers[2:5]] == [(Status.PENDING, 2)] * 3
    assert (kept[sleepers[5].id].status, kept[sleepers[5].id].reason) == (Status.PENDING, None)


async def test_those_that_are_claimed_later_stand_in_their_queue_and_are_not_read_again_e1(
    served: Served, clock: FakeClock
) -> None:
    sleepers = await asleep(served, clock, 5)
    clock.advance(SECONDS)
    await served.shop.engine.run(PromoteDue())
    given = [*await served.next()]

    with recording(served.shop.engine.store) as sent:
        while len(given) < len(sleepers):
            await served.complete(*given[-2:])
            given += await served.next()

    assert [task.id for task in given] == [task.id for task in sleepers]
    assert not [text for text in sent if "FROM tasks" in text]


async def test_where_nothing_is_known_of_the_head_of_their_queue_it_is_read_behind_their_promotion_e1(
    served: Served, clock: FakeClock
) -> None:
    sleepers = await asleep(served, clock, 2)
    sleepers += await served.shop.submit(3, due_at=clock.now() + timedelta(seconds=SECONDS))
    served.shop.engine.dispatcher.head_cache.clear()
    clock.advance(SECONDS)

    assert await served.shop.engine.run(PromoteDue()) == 5

    given = [*await served.next()]
    while len(given) < len(sleepers):
        await served.complete(*given[-2:])
        given += await served.next()
    assert [task.id for task in given] == [task.id for task in sleepers]


async def test_of_one_that_another_writer_changed_nothing_is_written_and_all_are_read_anew_e1_g3(
    served: Served, clock: FakeClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleepers = await asleep(served, clock, 5)
    clock.advance(SECONDS)
    caplog.set_level(logging.DEBUG)
    promote = promotions.promote

    async def outdated(tx: Tx, promoted: list[tuple[Task, int]], counts: Any) -> None:
        monkeypatch.setattr(promotions, "promote", promote)
        await promote(tx, [(task, was - (i == 3)) for i, (task, was) in enumerate(promoted)], counts)

    monkeypatch.setattr(writing.promotions, "promote", outdated)

    assert await served.shop.engine.run(PromoteDue()) == 5

    assert "another writer was faster" in caplog.text
    claimed = [*await served.next()]
    kept = await rows_of(served)
    assert [kept[task.id] for task in claimed] == claimed
    assert [kept[task.id].status for task in sleepers] == [Status.CLAIMED] * 2 + [Status.PENDING] * 3


async def test_who_wakes_while_its_last_run_still_goes_on_is_claimed_when_that_has_stopped_g2(
    served: Served, clock: FakeClock
) -> None:
    [task] = await served.shop.submit(1, options={"max_retries": 3, "retry_base": SECONDS, "timeout": 1.0})
    [run] = await served.next()
    await served.say(run, kind="started")
    clock.advance(5)
    assert await served.shop.engine.run(ExpireLeases()) == 1
    clock.advance(2 * SECONDS)

    assert await served.shop.engine.run(PromoteDue()) == 1

    waiting = await served.shop.get(task.id)
    assert (waiting.status, waiting.blocked, served.delivered.empty()) == (Status.PENDING, True, True)
    await served.shop.report(run, "stopped")
    await served.shop.engine.run(Beat(principal=ADMIN, worker_id=served.slot.worker_id))
    [again] = await served.next()
    assert (again.id, again.run_id) == (task.id, run.run_id + 1)

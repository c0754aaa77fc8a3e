"""PostgreSQL: what a worker has done and what it gets next are written together, and each is guarded by itself."""

from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from tests.conftest import FakeClock
from tests.engine.dispatch.test_slots import Served, served_alone
from tests.store.recorded import recording
from treadle.wire.ids import TaskId
from treadle.wire.status import Outcome, Status
from treadle_server.domain.tasks import Task
from treadle_server.errors import StaleRun
from treadle_server.store.past_runs import past_runs
from treadle_server.store.tables import tasks
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.transaction.load import to_task

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def served(postgres_database: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A worker of two tasks at a time, who has its first two of six; its server is the only one that writes."""
    async with served_alone(postgres_database, clock, monkeypatch) as served:
        await served.shop.submit(6)
        yield served


async def rows_of(served: Served) -> dict[TaskId, Task]:
    async with served.shop.engine.store.read() as connection:
        every = select_tasks().order_by(tasks.c.seq)
        found = [to_task(row) for row in await connection.execute(every)]
    return {task.id: task for task in found}


async def test_completions_and_the_next_claims_are_one_statement_and_what_is_told_is_what_is_kept(
    served: Served, clock: FakeClock
) -> None:
    given = await served.next()
    clock.advance(1.000001)

    with recording(served.shop.engine.store) as sent:
        assert await served.complete(*given) == {}
        following = await served.next()

    kept = await rows_of(served)
    assert len([text for text in sent if "UPDATE tasks" in text]) == 1
    assert [kept[task.id] for task in following] == following
    assert [task.taken_until - task.claimed_at for task in following] == [task.lease for task in following]
    assert [kept[task.id] for task in given] == given
    assert {task.status for task in given} == {Status.COMPLETED}
    async with served.shop.engine.store.read() as connection:
        ended_runs = past_runs()
        ended = (await connection.execute(sa.select(ended_runs).order_by(ended_runs.c.task_seq))).all()
    assert [(row.task_seq, row.status, row.ended_at) for row in ended] == [
        (task.seq, Outcome.COMPLETED, task.completed_at) for task in given
    ]


@pytest.mark.parametrize("whose", ["of what has ended", "of what is claimed"])
async def test_a_row_that_another_writer_changed_is_seen_in_a_turn_too_g3(served: Served, whose: str) -> None:
    one, other = await served.next()
    waiting = min((t for t in (await rows_of(served)).values() if t.status is Status.PENDING), key=lambda t: t.seq)
    changed = one if whose == "of what has ended" else waiting
    async with served.shop.engine.store.read_loosely() as connection:
        # Behind the back of a server that believes to be the only one.
        values = {"version": changed.version + 2, "run_id": changed.run_id + 1}
        await connection.execute(sa.update(tasks).where(tasks.c.id == changed.id).values(values))

    refused = await served.complete(one, other)

    kept = await rows_of(served)
    assert kept[other.id].status is Status.COMPLETED
    if changed is one:
        assert isinstance(refused[0], StaleRun)
        assert kept[one.id].status is Status.CLAIMED
    else:
        assert refused == {}
        assert kept[one.id].status is Status.COMPLETED
        assert changed.run_id + 2 in {task.run_id for task in await served.next()}, "it was read anew"

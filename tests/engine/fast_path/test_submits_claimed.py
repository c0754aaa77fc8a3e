"""PostgreSQL: a task for which somebody waits is put in as claimed, by the one statement that puts it in."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import sqlalchemy as sa

from tests.conftest import FakeClock
from tests.engine.dispatch.test_slots import Served, served_alone
from tests.engine.fast_path.test_reports_turns import rows_of
from tests.store.recorded import Recorded, recording
from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.engine.cache import MOST_OF_BLOCK
from treadle_server.store.transaction.counts import all_counts

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def served(postgres_database: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A worker of two tasks at a time, who waits; its server alone writes, and knows the job and its empty queue."""
    async with served_alone(postgres_database, clock, monkeypatch) as served:
        for _ in range(2):  # the first one makes the lane, the second has it read
            await served.shop.submit()
            await served.complete(*await served.next())
        clock.advance(1.000001)
        yield served


def changes_of_tasks(sent: Recorded) -> list[str]:
    return [text for text in sent if "INSERT INTO tasks" in text or "UPDATE tasks" in text]


async def counted(served: Served) -> Counter[str]:
    """Return how many tasks the kept counts have of each status."""
    found: Counter[str] = Counter()
    async with served.shop.engine.store.read() as connection:
        for row in await connection.execute(sa.select(all_counts("postgresql"))):
            found[row.status] += row.n
    return +found


async def kept(served: Served) -> dict[TaskId, Task]:
    """Return the tasks' rows, their JSON as it was submitted: PostgreSQL writes it in its own way."""
    return {
        task.id: replace(task, payload=_compact(task.payload), tags=None if task.tags is None else _compact(task.tags))
        for task in (await rows_of(served)).values()
    }


def _compact(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"))


async def given(served: Served, count: int) -> list[Task]:
    found: list[Task] = []
    while len(found) < count:
        found += await served.next()
    return found


async def test_a_lone_task_that_is_waited_for_is_one_statement_without_a_transaction_c2(served: Served) -> None:
    with recording(served.shop.engine.store) as sent:
        [told] = await served.shop.submit(options={"priority": 3, "timeout": 7.5})
        [claimed] = await served.next()

    assert (told.status, told.version, told.worker_id) == (Status.PENDING, 1, None)
    assert (await kept(served))[told.id] == claimed
    assert (claimed.status, claimed.run_id, claimed.worker_id) == (Status.CLAIMED, 0, served.slot.worker_id)
    assert claimed.taken_until == claimed.claimed_at + claimed.lease
    [change] = changes_of_tasks(sent)
    assert "UPDATE tasks" not in change
    assert "believed" in change, "it stands alone"
    assert await counted(served) == {"completed": 2, "claimed": 1}


async def test_a_bulk_that_needs_numbers_takes_them_without_a_transaction(served: Served) -> None:
    with recording(served.shop.engine.store) as sent:
        told = await served.shop.submit(MOST_OF_BLOCK + 1)

    assert [task.seq for task in told] == sorted({task.seq for task in told})
    assert any("nextval" in text and "nextval('count" not in text for text in sent)
    [change] = changes_of_tasks(sent)
    assert "believed" in change, "it stands alone"
    assert len(await kept(served)) == len(told) + 2


async def test_of_several_that_are_put_in_those_are_claimed_for_which_there_is_room_c2(served: Served) -> None:
    with recording(served.shop.engine.store) as sent:
        told = await served.shop.submit(5)
        claimed = await given(served, 2)

    rows = await kept(served)
    assert [task.seq for task in claimed] == [task.seq for task in told[:2]]
    assert [rows[task.id] for task in claimed] == claimed
    assert [rows[task.id] for task in told[2:]] == told[2:]
    assert len(changes_of_tasks(sent)) == 1
    assert await counted(served) == {"completed": 2, "claimed": 2, "pending": 3}

    await served.complete(*claimed)
    assert [task.seq for task in await given(served, 2)] == [task.seq for task in told[2:4]]


async def test_claims_of_those_that_were_there_and_of_those_that_come_are_one_statement(served: Served) -> None:
    told = await served.shop.submit(3)
    held = await given(served, 2)

    with recording(served.shop.engine.store) as sent:
        _, new = await asyncio.gather(served.complete(*held), served.shop.submit(2))
        claimed = await given(served, 2)

    rows = await kept(served)
    assert [task.seq for task in claimed] == [told[2].seq, new[0].seq]
    assert [rows[task.id] for task in claimed] == claimed
    assert rows[new[1].id] == new[1]
    [change] = changes_of_tasks(sent)
    assert change.count("UPDATE tasks") == 2, "completions, and the claim of what was there"
    assert await counted(served) == {"completed": 4, "claimed": 2, "pending": 1}


async def test_what_is_put_in_with_tags_is_claimed_after_it(served: Served) -> None:
    """Their rows point to the task's, which is written before them."""
    [told] = await served.shop.submit(tags='{"part":"seat"}')
    [claimed] = await served.next()

    assert claimed.id == told.id
    assert (await kept(served))[told.id] == claimed
    assert await counted(served) == {"completed": 2, "claimed": 1}

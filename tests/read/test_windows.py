"""Windows of the task list, compared with sorting all of it."""

from typing import Any

import pytest
from sqlalchemy import select

from tests.read.conftest import Shelf, random_rows, task_row
from treadle.wire.frames import Window
from treadle.wire.status import LEASED, Status
from treadle.wire.tasks import TaskFilter
from treadle_server.domain.tasks import Task
from treadle_server.store.load import to_task
from treadle_server.store.read import filters
from treadle_server.store.read.tasks import page
from treadle_server.store.read.windows import window
from treadle_server.store.tables import tasks


def in_position_order(task: Task) -> tuple[Any, ...]:
    """Return the key of the order `position` of docs/protocol.md."""
    if task.status in LEASED:
        return (0, task.claimed_at, task.seq)
    if task.status is Status.PENDING:
        return (1, -task.priority, task.due_at, task.seq)
    if task.status is Status.SCHEDULED:
        return (2, task.due_at, task.seq)
    return (3 if task.status is Status.PAUSED else 4, -task.seq)


KEYS = {
    "position": in_position_order,
    "newest": lambda task: -task.seq,
    "oldest": lambda task: task.seq,
    "updated": lambda task: (-task.updated_at.timestamp(), -task.seq),
}

FILTERS = [
    {},
    {"job": "lab:tasks:add"},
    {"job": "lab:tasks:none"},
    {"status": ["pending", "running"]},
    {"status": ["pending"], "job": "@global:tasks:fair", "room": "den"},
    {"status": []},
    {"text": "fair", "status": ["failed", "paused", "claimed"]},
]


async def everything(shelf: Shelf) -> list[Task]:
    async with shelf.store.read() as connection:
        return [to_task(row) for row in await connection.execute(select(tasks))]


def matches(task: Task, wanted: dict[str, Any]) -> bool:
    return (
        ("job" not in wanted or task.job_name == wanted["job"])
        and ("room" not in wanted or task.room == wanted["room"])
        and ("status" not in wanted or task.status in wanted["status"])
        and ("text" not in wanted or wanted["text"] in task.job_name)
    )


@pytest.mark.parametrize("order", KEYS)
async def test_a_window_is_a_part_of_the_sorted_list(shelf: Shelf, order: str):
    await shelf.put(random_rows(200))
    found = await everything(shelf)

    async with shelf.store.read() as connection:
        for wanted in FILTERS:
            expected = [t.seq for t in sorted(found, key=KEYS[order]) if matches(t, wanted)]
            for offset, limit in ((0, 30), (7, 11), (70, 500), (190, 20)):
                looked_at = Window(filter=TaskFilter(**wanted), order=order, offset=offset, limit=limit)  # type: ignore[arg-type]
                seen = [task.seq for task in await window(connection, looked_at)]
                assert seen == expected[offset : offset + limit], (wanted, offset, limit)


@pytest.mark.parametrize("order", KEYS)
async def test_a_window_may_start_behind_a_task(shelf: Shelf, order: str):
    await shelf.put(random_rows(120))
    ordered = sorted(await everything(shelf), key=KEYS[order])

    async with shelf.store.read() as connection:
        for index in range(0, 120, 13):
            looked_at = Window(order=order, after=ordered[index].id, limit=10)  # type: ignore[arg-type]
            seen = [task.seq for task in await window(connection, looked_at)]
            assert seen == [task.seq for task in ordered[index + 1 : index + 11]]


async def test_totals_are_kept_for_job_and_status_and_counted_otherwise(shelf: Shelf, monkeypatch: pytest.MonkeyPatch):
    await shelf.put(random_rows(200))
    found = await everything(shelf)
    monkeypatch.setattr(filters, "COUNT_CAP", 20)

    async with shelf.store.read() as connection:
        for wanted in FILTERS:
            total, capped = await filters.total(connection, TaskFilter(**wanted))
            real = sum(matches(task, wanted) for task in found)
            counted = "room" in wanted or "text" in wanted
            assert (total, capped) == ((20, True) if counted and real > 20 else (real, False)), wanted


async def test_a_page_reads_along_an_index(shelf: Shelf):
    await shelf.put([task_row(seq) for seq in range(1, 50)])
    plans: list[str] = []

    async with shelf.store.read() as connection:
        explain = "EXPLAIN QUERY PLAN"
        if shelf.store.dialect == "postgresql":
            # For 50 rows it would rightly scan; the question is whether an index gives the order.
            explain = "EXPLAIN"
            for planner in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
                await connection.exec_driver_sql(f"SET {planner} = off")
        for wanted in (TaskFilter(), TaskFilter(job="lab:tasks:add"), TaskFilter(room="lab")):
            where = await filters.conditions(connection, wanted)
            statement = select(tasks).where(*where).order_by(tasks.c.seq.desc()).limit(10)
            sql = str(statement.compile(connection.engine.sync_engine, compile_kwargs={"literal_binds": True}))
            plans.append("\n".join(str(row[-1]) for row in await connection.exec_driver_sql(f"{explain} {sql}")))
        assert len((await page(connection, TaskFilter(), limit=10)).items) == 10

    assert not any("TEMP B-TREE" in plan or "Sort" in plan for plan in plans)
    assert "ix_tasks_job" in plans[1]
    assert "ix_tasks_room" in plans[2]

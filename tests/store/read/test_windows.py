"""Windows of the task list, compared with sorting all of it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.store.read.conftest import START, WORKER, StoredTasks, random_rows, task_row
from treadle.wire.filters import TaskFilter
from treadle.wire.frames import Window
from treadle.wire.status import LEASED, Status
from treadle_server.domain.tasks import Task
from treadle_server.store.read import filters
from treadle_server.store.read.orders import SortKey
from treadle_server.store.read.tasks import page
from treadle_server.store.read.walks import Asked
from treadle_server.store.read.windows import ahead_of, anchor, freeze, window
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tasks
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.transaction.load import to_task


def in_position_order(task: Task) -> tuple[Any, ...]:
    """Return the key of the order `position` of docs/protocol.md."""
    if task.status in LEASED:
        return (0, task.claimed_at, task.seq)
    if task.status is Status.PENDING:
        return (1, -task.priority, task.due_at, task.seq)
    if task.status is Status.SCHEDULED:
        return (2, task.due_at, task.seq)
    if task.status is Status.BLOCKED:
        return (3, task.seq)
    return (4 if task.status is Status.PAUSED else 5, -task.seq)


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
    {"text": "fair", "status": ["failed", "paused", "claimed"]},
]


async def everything(stored: StoredTasks) -> list[Task]:
    async with stored.store.read() as connection:
        every = select_tasks().order_by(tasks.c.seq)
        return [to_task(row) for row in await connection.execute(every)]


def matches(task: Task, wanted: dict[str, Any]) -> bool:
    return (
        ("job" not in wanted or task.job_name == wanted["job"])
        and ("room" not in wanted or task.room == wanted["room"])
        and ("status" not in wanted or task.status in wanted["status"])
        and ("text" not in wanted or wanted["text"] in task.job_name)
    )


@pytest.mark.parametrize("order", KEYS)
async def test_a_window_is_a_part_of_the_sorted_list(stored: StoredTasks, order: str):
    await stored.put(random_rows(200))
    found = await everything(stored)

    async with stored.store.read() as connection:
        for wanted in FILTERS:
            expected = [t.seq for t in sorted(found, key=KEYS[order]) if matches(t, wanted)]
            for offset, limit in ((0, 30), (7, 11), (70, 500), (190, 20)):
                looked_at = Window(filter=TaskFilter(**wanted), order=order, offset=offset, limit=limit)  # type: ignore[arg-type]
                seen = [task.seq for task in await window(connection, looked_at)]
                assert seen == expected[offset : offset + limit], (wanted, offset, limit)


@pytest.mark.parametrize("order", KEYS)
async def test_a_window_may_start_behind_a_task(stored: StoredTasks, order: str):
    await stored.put(random_rows(120))
    ordered = sorted(await everything(stored), key=KEYS[order])

    async with stored.store.read() as connection:
        for index in range(0, 120, 13):
            looked_at = Window(order=order, after=ordered[index].id, limit=10)  # type: ignore[arg-type]
            seen = [task.seq for task in await window(connection, looked_at, await anchor(connection, looked_at))]
            assert seen == [task.seq for task in ordered[index + 1 : index + 11]]


@pytest.mark.parametrize("order", KEYS)
async def test_a_window_hangs_on_any_task_forward_and_backward_and_tells_what_stands_before_it(
    stored: StoredTasks, order: str
):
    """TUI.md 2: an anchor need not match the filter; what stands before the window is as in the sorted list."""
    await stored.put(random_rows(150))
    ordered = sorted(await everything(stored), key=KEYS[order])

    async with stored.store.read() as connection:
        for wanted in FILTERS:
            matching = [task for task in ordered if matches(task, wanted)]
            for index in range(0, 150, 17):
                before = [task for task in ordered[:index] if matches(task, wanted)]
                behind = [task for task in ordered[index:] if matches(task, wanted)]
                strictly = [task for task in ordered[index + 1 :] if matches(task, wanted)]
                for name, expected, ahead in (
                    ("first", behind[:10], len(before)),
                    ("after", strictly[:10], len(matching) - len(strictly)),
                    ("before", before[-10:], max(0, len(before) - 10)),
                ):
                    given = {"filter": TaskFilter(**wanted), "order": order, "limit": 10, name: ordered[index].id}
                    looked_at = Window.model_validate(given)
                    at = await anchor(connection, looked_at)
                    found = await window(connection, looked_at, at)
                    told = await ahead_of(connection, looked_at, at, found, len(matching))
                    assert [task.seq for task in found] == [task.seq for task in expected], (wanted, index, name)
                    assert told == (ahead, False), (wanted, index, name)


async def test_a_window_without_an_anchor_knows_what_stands_before_it_from_its_offset(stored: StoredTasks):
    await stored.put(random_rows(30))

    async with stored.store.read() as connection:
        for offset, ahead in ((0, 0), (12, 12), (99, 30)):
            looked_at = Window(offset=offset, limit=5)
            found = await window(connection, looked_at)
            assert await ahead_of(connection, looked_at, None, found, 30) == (ahead, False)


async def test_what_stands_before_a_window_is_counted_up_to_a_cap_that_is_told(
    stored: StoredTasks, monkeypatch: pytest.MonkeyPatch
):
    await stored.put(random_rows(90))
    monkeypatch.setattr(filters, "COUNT_CAP", 20)

    async with stored.store.read() as connection:
        for order in ("newest", "position"):
            ordered = sorted(await everything(stored), key=KEYS[order])
            for index, told in ((20, (20, False)), (21, (20, True)), (85, (20, True))):
                looked_at = Window(order=order, first=ordered[index].id)  # type: ignore[arg-type]
                at = await anchor(connection, looked_at)
                assert await ahead_of(connection, looked_at, at, ordered[index:], 90) == told


async def test_an_anchor_is_a_place_that_stays_when_its_task_moves_on(stored: StoredTasks):
    """TUI.md 1: a window that hangs on a task does not jump when that task is claimed."""
    await stored.put([task_row(seq, due_at=START + timedelta(seconds=seq)) for seq in range(1, 9)])
    ordered = sorted(await everything(stored), key=in_position_order)
    looked_at = Window(order="position", first=ordered[3].id, limit=3)
    async with stored.store.read() as connection:
        at = await anchor(connection, looked_at)

    running = {"status": "running", "run_id": 0, "worker_id": WORKER, "taken_until": START, "claimed_at": START}
    async with stored.store.write() as tx:
        await tx.connection.execute(update(tasks).where(tasks.c.id == ordered[3].id).values(**running))

    async with stored.store.read() as connection:
        assert [task.seq for task in await window(connection, looked_at, at)] == [5, 6, 7]
        assert await ahead_of(connection, looked_at, at, await window(connection, looked_at, at), 8) == (4, False)


@pytest.mark.parametrize("order", KEYS)
async def test_what_a_filter_means_is_frozen_in_order_with_versions_up_to_a_cap_that_is_told(
    stored: StoredTasks, order: str
):
    """TUI.md 6."""
    await stored.put([{**row, "version": row["seq"] % 5 + 1} for row in random_rows(120)])
    ordered = sorted(await everything(stored), key=KEYS[order])

    async with stored.store.read() as connection:
        for wanted in FILTERS:
            expected = [(task.id, task.version, str(task.status)) for task in ordered if matches(task, wanted)]
            for limit in (10, 500):
                found, is_capped = await freeze(connection, TaskFilter(**wanted), order=order, limit=limit)
                assert [(one.id, one.version, one.status) for one in found] == expected[:limit]
                assert is_capped is (len(expected) > limit)


async def test_a_window_deep_in_the_list_reads_no_more_than_one_at_its_head(tmp_path: Path):
    """TUI.md 2: scrolling never reads from the start; counted in steps of SQLite's own machine."""
    store = SqlStore(f"sqlite:///{tmp_path / 'treadle.db'}")
    await store.open()
    try:
        stored = StoredTasks(store)
        await stored.prepare()
        await stored.put([task_row(seq, due_at=START + timedelta(seconds=seq)) for seq in range(1, 20_001)])
        ids = {task.seq: task.id for task in await everything(stored)}
        for order, seqs in (("position", (3, 19_000)), ("newest", (19_997, 1_000))):
            for name in ("after", "before"):
                near, far = [
                    await _steps(store, Window.model_validate({"order": order, name: ids[seq], "limit": 50}))
                    for seq in (seqs[0] + (100 if order == "position" else -100), seqs[1])
                ]
                assert far < 2 * near, (order, name)
    finally:
        await store.close()


async def _steps(store: SqlStore, looked_at: Window) -> int:
    """Return how many tens of steps SQLite's machine takes to read the window of 50."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    async with store.read() as connection:
        at: SortKey | None = await anchor(connection, looked_at)
        raw = (await connection.get_raw_connection()).driver_connection
        assert raw is not None
        await raw.set_progress_handler(count, 10)
        assert len(await window(connection, looked_at, at)) == 50
        await raw.set_progress_handler(None, 10)
    return steps


async def test_totals_are_kept_for_job_and_status_and_counted_otherwise(
    stored: StoredTasks, monkeypatch: pytest.MonkeyPatch
):
    await stored.put(random_rows(200))
    found = await everything(stored)
    monkeypatch.setattr(filters, "COUNT_CAP", 20)

    async with stored.store.read() as connection:
        for wanted in FILTERS:
            total, capped = await filters.total(connection, TaskFilter(**wanted))
            real = sum(matches(task, wanted) for task in found)
            counted = "room" in wanted or "text" in wanted
            assert (total, capped) == ((20, True) if counted and real > 20 else (real, False)), wanted


@pytest.mark.usefixtures("fresh_database")
async def test_a_page_reads_along_an_index(stored: StoredTasks):
    await stored.put([task_row(seq) for seq in range(1, 50)])
    plans: list[str] = []

    async with stored.store.read() as connection:
        explain = "EXPLAIN QUERY PLAN"
        if stored.store.dialect == "postgresql":
            # For 50 rows it would rightly scan; the question is whether an index gives the order.
            explain = "EXPLAIN"
            for planner in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
                await connection.exec_driver_sql(f"SET {planner} = off")
        for wanted in (TaskFilter(), TaskFilter(job="lab:tasks:add"), TaskFilter(room="lab")):
            where = await filters.conditions(connection, wanted)
            statement = where.walk().those(Asked([]), limit=10, keys=["seq", "id"])
            sql = str(statement.compile(connection.engine.sync_engine, compile_kwargs={"literal_binds": True}))
            plans.append("\n".join(str(row[-1]) for row in await connection.exec_driver_sql(f"{explain} {sql}")))
        assert len((await page(connection, TaskFilter(), limit=10)).items) == 10

    assert not any("TEMP B-TREE" in plan or "Sort" in plan for plan in plans)
    assert "ix_task_specs_job" in plans[1]
    assert "ix_task_specs_room" in plans[2]
    assert "Seq Scan" not in "\n".join(plans)
    assert "SCAN tasks" not in "\n".join(plans[1:])

"""Queue positions, compared with what sorting everything gives."""

import itertools
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from shutil import copyfile
from typing import Any
from uuid import uuid4

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import TextClause, event, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.store.read.conftest import START, StoredTasks, queue_of, random_rows, task_row
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.store.read import positions as module
from treadle_server.store.read.positions import GAPS, NUMBERED, position, positions
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tasks
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.transaction.load import to_task


def by_sorting(found: list[Task]) -> dict[int, int]:
    """Return each pending task's position the slow way: by the definition."""
    queues: dict[tuple[int, str], list[Task]] = defaultdict(list)
    for task in found:
        if task.status is Status.PENDING:
            queues[queue_of(task)].append(task)
    places = {}
    for queue in queues.values():
        queue.sort(key=lambda task: (-task.priority, task.due_at, task.seq))
        places |= {task.seq: place for place, task in enumerate(queue, 1)}
    return places


async def all_tasks(stored: StoredTasks) -> list[Task]:
    async with stored.store.read() as connection:
        every = select_tasks().order_by(tasks.c.seq)
        return [to_task(row) for row in await connection.execute(every)]


async def test_positions_are_what_sorting_gives(stored: StoredTasks):
    """Z14: over pools, blocked tasks, equal priorities and equal times; a fair job's within the room."""
    await stored.put(random_rows(300))
    found = await all_tasks(stored)

    async with stored.store.read() as connection:
        together = await positions(connection, found)
        alone = {task.seq: await position(connection, task) for task in found[:60]}

    expected = by_sorting(found)
    assert together == expected
    assert alone == {task.seq: expected.get(task.seq) for task in found[:60]}


async def test_a_task_of_a_queue_that_is_newer_than_what_is_read_has_no_position_yet(stored: StoredTasks):
    """Who watches is told of it before the snapshot has its lane; the other tasks' numbers are right all the same."""
    await stored.put(random_rows(40))
    found = await all_tasks(stored)
    places = by_sorting(found)
    newer = next(replace(task, seq=10_000, lane=10_000) for task in found if task.seq in places)

    async with stored.store.read() as connection:
        assert await positions(connection, [newer, *found]) == places
        assert await position(connection, newer) is None


@pytest.mark.parametrize("lanes", [[1], [1, 2]], ids=["in gaps", "numbered"])
async def test_what_is_taken_out_between_two_statements_is_left_out_or_counted_as_it_is(
    stored: StoredTasks, monkeypatch: pytest.MonkeyPatch, lanes: list[int]
):
    """A loose read on PostgreSQL sees more with each statement: of a queue that is emptied it was a ValueError."""
    rows = [
        task_row(seq, lane=lanes[seq % len(lanes)], priority=priority) for seq, priority in enumerate([5, 5, 0, 0], 1)
    ]
    await stored.put(rows)
    urgent, low = [], []
    for task in await all_tasks(stored):
        (urgent if task.priority else low).append(task)
    real = module._rows

    async def take_urgent(connection: AsyncConnection, statements: dict[str, TextClause], **given: Any) -> Any:
        if statements is not module.BANDS:
            async with stored.store.write() as tx:
                await tx.connection.execute(text("DELETE FROM task_specs WHERE seq <= 2"))
                await tx.connection.execute(text("DELETE FROM tasks WHERE seq <= 2"))
                await tx.connection.execute(text("UPDATE lane_counts SET n = 0 WHERE priority = 5"))
        return await real(connection, statements, **given)

    monkeypatch.setattr(module, "_rows", take_urgent)
    async with stored.store.read_loosely() as connection:
        places = await positions(connection, [*urgent, *low])

    # SQLite's readers keep theirs.
    assert places == ({1: 1, 2: 2, 3: 3, 4: 4} if stored.store.dialect == "sqlite" else {3: 1, 4: 2})


_ROWS = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3, 4]),
        st.sampled_from(["pending", "pending", "pending", "paused", "completed"]),
        st.integers(-2, 2),
        st.integers(0, 3),
        st.booleans(),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=_ROWS, data=st.data())
async def test_any_part_of_any_queue_has_the_positions_that_sorting_gives(
    tmp_path: Path, sqlite_template: Path, rows: list[tuple[int, str, int, int, bool]], data: st.DataObject
):
    """Z14, property-based; the whole suite of the other test runs on both databases."""
    store = SqlStore(f"sqlite:///{copyfile(sqlite_template, tmp_path / uuid4().hex)}")
    await store.open()
    try:
        stored = StoredTasks(store)
        await stored.prepare()
        await stored.put([
            task_row(
                seq, lane=lane, job_num=1 if lane < 3 else 2, room="den" if lane == 4 else "lab", status=status,
                priority=priority, due_at=START + timedelta(seconds=due), blocked=blocked,
            )
            for seq, (lane, status, priority, due, blocked) in enumerate(rows, 1)
        ])  # fmt: skip
        found = await all_tasks(stored)
        asked = data.draw(st.lists(st.sampled_from(found), unique_by=lambda task: task.seq))
        expected = by_sorting(found)
        async with store.read() as connection:
            given_places = await positions(connection, asked)
        assert given_places == {task.seq: expected[task.seq] for task in asked if task.seq in expected}
    finally:
        await store.close()


_ASKED = {
    ("sqlite", "gap"): "[[1, 0, 0, -1, 9, 1, -1, 1]]",
    ("sqlite", "last"): "[[1, 0, 1]]",
    ("postgresql", "gap"): '[[1, 0, "-infinity", -1, 9, "2026-01-01T00:00:00Z", -1, 1]]',
    ("postgresql", "last"): '[[1, 0, "2026-01-01T00:00:00Z"]]',
}


async def plan_of(stored: StoredTasks, statements: dict[str, TextClause], what: str) -> str:
    dialect = stored.store.dialect
    explain = "EXPLAIN QUERY PLAN" if dialect == "sqlite" else "EXPLAIN"
    given = {"asked": _ASKED[dialect, what]} | ({"seqs": "[1]"} if what == "last" else {})
    async with stored.store.read() as connection:
        rows = await connection.execute(text(f"{explain} {statements[dialect].text}"), given)
        return "\n".join(str(row[-1]) for row in rows)


async def test_positions_are_counted_along_the_index(stored: StoredTasks):
    """The plan: a range of the queue's index for each gap in each lane."""
    await stored.put(random_rows(50))

    plan = await plan_of(stored, GAPS, "gap")

    assert "ix_tasks_queue" in plan
    assert "SCAN t\n" not in plan
    if stored.store.dialect == "sqlite":
        assert "ix_tasks_queue (lane=? AND blocked=? AND priority=? AND due_at>? AND due_at<?)" in plan
        assert plan.count("ix_tasks_queue (lane=? AND blocked=? AND priority=? AND due_at=? AND seq>? AND seq<?)") == 2


async def test_tasks_are_numbered_along_the_index(stored: StoredTasks):
    """The plan: a range of the queue's index in each lane, up to the last task that is asked for."""
    await stored.put(random_rows(50))

    plan = await plan_of(stored, NUMBERED, "last")

    if stored.store.dialect == "sqlite":
        assert "ix_tasks_queue (lane=? AND blocked=? AND priority=? AND due_at<?)" in plan
    else:
        [entered] = [line for line in plan.splitlines() if "due_at <= " in line]
        assert entered.strip().startswith("Index Cond: ((lane = ")


async def test_a_page_of_positions_is_one_walk(stored: StoredTasks):
    """DESIGN.md promises a position in under 10 ms of 100,000: a page of 100 is one walk, not a hundred."""
    await statistics_of_few(stored)
    await stored.put([task_row(seq, due_at=START + timedelta(seconds=seq)) for seq in range(1, 20_001)])
    found = await all_tasks(stored)

    async with stored.store.read() as connection:
        assert await position(connection, found[-1]) == 20_000
        asked = found[-100:]
        places = await positions(connection, asked)
        work = await work_of(connection, asked)

    assert [places[task.seq] for task in asked] == list(range(19_901, 20_001))
    # SQLite's steps (a hundred walks take 10 million), PostgreSQL's pages (170,000).
    assert work < (300_000 if stored.store.dialect == "sqlite" else 20_000)


async def test_a_page_among_many_pools_looks_into_each_of_them_once(stored: StoredTasks):
    """Not for each row of the page: with 5,000 pools a page of 50 took 1.6 s on PostgreSQL, with 30,000 13 s."""
    await statistics_of_few(stored)
    pools = range(10, 1_010)
    await stored.add_lanes({lane: (1, "", f"pool {lane}") for lane in pools})
    rows = [
        task_row(seq, lane=pools[seq % 1_000], pool=f"pool {pools[seq % 1_000]}", due_at=START + timedelta(seconds=seq))
        for seq in range(1, 1_001)
    ]
    await stored.put(rows)
    found = await all_tasks(stored)

    async with stored.store.read() as connection:
        asked = found[-50:]
        places = await positions(connection, asked)
        work = await work_of(connection, asked)

    assert places == {task.seq: task.seq for task in asked}
    # Steps and pages; in gaps 10,600,000 and 208,000.
    assert work < (250_000 if stored.store.dialect == "sqlite" else 20_000)


async def statistics_of_few(stored: StoredTasks) -> None:
    """Leave PostgreSQL with the statistics of a time when there were few tasks."""
    if stored.store.dialect == "postgresql":
        await stored.put([task_row(seq) for seq in range(1, 50)])
        async with stored.store.write() as tx:
            await tx.connection.execute(text("ANALYZE"))
            for table in ("task_specs", "tasks", "lane_counts"):
                await tx.connection.execute(text(f"DELETE FROM {table}"))


async def work_of(connection: AsyncConnection, asked: list[Task]) -> int:
    """Return the steps of SQLite's machine, or the pages that PostgreSQL looks at, for the positions of the tasks."""
    raw = (await connection.get_raw_connection()).driver_connection
    assert raw is not None
    if connection.dialect.name == "sqlite":
        turns = itertools.count()
        await raw.set_progress_handler(lambda: next(turns) and None, 100)
        await positions(connection, asked)
        await raw.set_progress_handler(None, 0)
        return next(turns) * 100
    told: list[tuple[Any, ...]] = []
    event.listen(connection.sync_connection, "before_cursor_execute", lambda *args: told.append(args[2:4]))
    await positions(connection, asked)
    pages = 0
    for statement, parameters in told:
        [[found]] = await raw.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *parameters)
        pages += orjson.loads(found)[0]["Plan"]["Shared Hit Blocks"]
    return pages

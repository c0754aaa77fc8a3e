"""What the writer reads of lines that wait for limits: their own tasks and no others, whatever a planner knows (F1)."""

from typing import Any

import pytest

from tests.store.read.conftest import START, StoredTasks, task_row
from tests.store.test_million import Case, work_of
from treadle_server.domain.limits import Line
from treadle_server.store.transaction.limit_lines import take_lines

LINES = [Line(1, f"1:{n}") for n in range(1, 6)]


async def of_lines(tx: Any, most: int) -> dict[str, list[tuple[int, bool]]]:
    found, _ = await take_lines(tx, LINES, most)
    return {line.limit_key: [(task.seq, bool(task.is_open)) for task in tasks] for line, tasks in found.items()}


@pytest.mark.usefixtures("fresh_database")
async def test_what_is_read_of_some_lines_does_not_grow_with_the_others_f1(stored: StoredTasks):
    """Counted in steps of SQLite's machine, and in rows that PostgreSQL's scans bring: it has no statistics here."""
    works = []
    for first, waits in ((1, False), (2_001, True)):
        rows = [
            task_row(seq, limit_key=f"1:{seq}", due_at=START, blocked=waits, parked=waits, priority=int(waits))
            for seq in range(first, first + 2_000)
        ]
        await stored.put(rows)
        works.append(await work_of(stored.store, Case(of_lines, lambda _: 0, writes=True), 2))

    assert works[0][1] == works[1][1] == {f"1:{n}": [(n, True)] for n in range(1, 6)}
    assert works[1][0] < 1.2 * works[0][0] + 50


async def test_of_a_line_all_that_may_be_claimed_are_told_and_the_first_that_wait_f1(stored: StoredTasks):
    key = LINES[0].limit_key
    rows = [task_row(seq, limit_key=key, due_at=START, blocked=seq % 2 == 1, parked=seq % 2 == 1) for seq in range(9)]
    held = task_row(90, limit_key=key, due_at=START, blocked=True, parked=False)
    await stored.put([*rows, held, task_row(91, limit_key=key, due_at=START, blocked=False, parked=False, lane=2)])

    async with stored.store.write() as tx:
        found = await of_lines(tx, 2)

    assert found[key] == [(0, True), (1, False), (2, True), (3, False), (4, True), (6, True), (8, True)]

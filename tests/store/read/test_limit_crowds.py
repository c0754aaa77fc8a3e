"""What waits for limits is counted no further than a screen needs, and says so."""

from typing import Any

import pytest

from tests.store.read.conftest import START, StoredTasks, task_row
from tests.store.test_million import Case, work_of
from treadle_server.store.read import limit_crowds

BIG, SMALL, BOTH, BUSY = "1:10", "1:11", "1:10 2:20", "3:30"


async def crowded(stored: StoredTasks, *, big: int) -> None:
    """Put in what waits and what does not, of four lines."""
    lines = [BIG] * big + [SMALL] * 3 + [BOTH] * 2
    rows = [task_row(seq, limit_key=line) for seq, line in enumerate(lines, 1)]
    others = [("running", BUSY), ("scheduled", SMALL), ("completed", BIG), ("pending", None)]
    await stored.put(rows + [task_row(9_000 + n, status=s, limit_key=line) for n, (s, line) in enumerate(others)])


async def test_all_that_waits_is_counted_where_that_is_little(stored: StoredTasks):
    await crowded(stored, big=5)

    async with stored.store.read() as connection:
        some, whole = await limit_crowds.some_of(connection), await limit_crowds.all_of(connection)

    assert some.waiting == whole.waiting == {BIG: 5, SMALL: 3, BOTH: 2}
    assert (some.more, some.is_cut) == (set(), False)


async def test_a_line_that_has_more_than_its_share_is_capped_and_the_others_are_whole(
    stored: StoredTasks, monkeypatch: pytest.MonkeyPatch
):
    await crowded(stored, big=400)
    monkeypatch.setattr(limit_crowds, "MOST_COUNTED", 64)

    async with stored.store.read() as connection:
        some = await limit_crowds.some_of(connection)

    # Half of it is for all three, 10 each, and the other half for what has more.
    assert some.waiting == {BIG: 32, SMALL: 3, BOTH: 2}
    assert (some.more, some.is_cut) == ({BIG}, False)


async def test_lines_beyond_the_most_are_left_out_and_that_is_told(
    stored: StoredTasks, monkeypatch: pytest.MonkeyPatch
):
    await crowded(stored, big=2)
    monkeypatch.setattr(limit_crowds, "MOST_LINES", 2)

    async with stored.store.read() as connection:
        some = await limit_crowds.some_of(connection)

    assert len(some.waiting) == 2
    assert some.is_cut


async def test_where_nothing_waits_there_is_nothing(stored: StoredTasks):
    async with stored.store.read() as connection:
        assert await limit_crowds.some_of(connection) == limit_crowds.Crowds()


@pytest.mark.usefixtures("fresh_database")
async def test_a_limit_with_thousands_behind_it_is_no_slower_to_look_at(
    stored: StoredTasks, monkeypatch: pytest.MonkeyPatch
):
    """Counted in steps of SQLite's machine, and in rows that PostgreSQL's scans bring."""
    monkeypatch.setattr(limit_crowds, "MOST_COUNTED", 200)

    async def ask(connection: Any, _: int) -> int:
        return sum((await limit_crowds.some_of(connection)).waiting.values())

    works = []
    for first in (0, 2_000):
        rows = [task_row(first + n, limit_key=BIG if n % 40 else f"1:{n}", due_at=START) for n in range(1, 2_001)]
        await stored.put([{**row, "lane": 1 + bool(first)} for row in rows])
        works.append((await work_of(stored.store, Case(ask, lambda _: 0), 0))[0])

    assert works[1] < 1.5 * works[0] + 50
    assert works[1] < 40_000

"""Places deep in line, compared with sorting all of it."""

import pytest

from tests.store.read.conftest import StoredTasks, random_rows, task_row
from tests.store.read.test_windows import everything, in_position_order
from treadle.wire.filters import TaskFilter
from treadle.wire.frames import Window
from treadle.wire.status import Status
from treadle_server.store.read import depths, walks, windows
from treadle_server.store.read.depths import depth
from treadle_server.store.read.windows import window
from treadle_server.store.tables import tasks

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("backward", [False, True], ids=["from the head", "from the end"])
@pytest.mark.parametrize("most_lanes", [1, 100], ids=["sorted", "bisected"])
async def test_a_place_has_as_many_tasks_before_it_as_are_told_and_few_less_than_wanted(
    stored: StoredTasks, monkeypatch: pytest.MonkeyPatch, most_lanes: int, backward: bool
) -> None:
    await stored.put(random_rows(400))
    monkeypatch.setattr(depths, "NEAR", 3)
    monkeypatch.setattr(depths, "MOST_BISECTED", most_lanes)
    found = [task for task in await everything(stored) if task.status is Status.PENDING]

    async with stored.store.read() as connection:
        for job, line in ((None, found), (1, [task for task in found if task.job_name == "lab:tasks:add"])):
            keys = sorted(((-task.priority, task.due_at, task.seq) for task in line), reverse=backward)
            for wanted in (*range(0, len(keys), 7), len(keys) - 1):
                values, passed = await depth(connection, job, wanted, backward=backward)
                assert values is not None
                place = (-values[0], *values[1:])
                assert [key <= place if not backward else key >= place for key in keys].count(True) == passed
                assert wanted - 3 <= passed <= wanted
            assert await depth(connection, job, len(keys), backward=backward) == (None, len(keys))


async def test_a_window_deep_in_line_is_a_part_of_the_sorted_list(
    stored: StoredTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored.put(random_rows(300))
    monkeypatch.setattr(depths, "NEAR", 3)
    monkeypatch.setattr(windows, "FAR", 5)
    ordered = sorted(await everything(stored), key=in_position_order)

    async with stored.store.read() as connection:
        for wanted in (TaskFilter(), TaskFilter(job="lab:tasks:add", status=[Status.PENDING, Status.PAUSED])):
            matching = [
                task.seq
                for task in ordered
                if (wanted.job in (None, task.job_name)) and (wanted.status is None or task.status in wanted.status)
            ]
            for offset in range(0, len(matching), 11):
                seen = await window(connection, Window(filter=wanted, order="position", offset=offset, limit=20))
                assert [task.seq for task in seen] == matching[offset : offset + 20], offset


async def test_who_asks_for_what_is_pending_alone_is_shown_all_of_it_wherever_in_line(
    stored: StoredTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored.put([task_row(seq) for seq in range(1, 201)])
    monkeypatch.setattr(walks, "LOOKED_THROUGH", 40)

    async with stored.store.read() as connection:
        wanted = TaskFilter(job="lab:tasks:add", status=[Status.PENDING])
        seen = await window(connection, Window(filter=wanted, order="position", offset=100, limit=50))

    assert [task.seq for task in seen] == list(range(101, 151))
    assert not seen.is_partial


async def test_a_line_that_is_shorter_than_was_counted_gives_the_place_that_it_has(stored: StoredTasks) -> None:
    """PostgreSQL: between two statements others may take tasks out of the line."""
    await stored.put([task_row(seq) for seq in range(1, 1_001)])
    async with stored.store.write() as tx:
        await tx.connection.execute(tasks.delete().where(tasks.c.seq > 300))

    async with stored.store.read() as connection:
        values, passed = await depth(connection, None, 900, backward=False)
        seen = await window(connection, Window(order="position", offset=900))

    assert values is not None
    assert passed == 0
    assert seen == []

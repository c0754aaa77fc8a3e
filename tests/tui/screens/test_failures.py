"""The failures' screen: groups by what failed and where, and a verb for all of one."""

from typing import Any

import pytest

from tests.tui.happenings import CELL, tasks_have_failed
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import BILLING, ROTATE
from tests.tui.stage import Stage, staged


@pytest.fixture
def failing(server: MockServer) -> MockServer:
    """The scene, in which some of it failed."""
    tasks_have_failed(server)
    return server


def acted(stage: Stage) -> list[tuple[str, int]]:
    return [(asked["action"], len(asked["ids"])) for asked in stage.asked("actions")]


async def test_one_group_of_one_task_is_told_in_the_singular(failing: MockServer, clock: FrozenClock) -> None:
    for key in list(failing.failures)[1:]:
        del failing.failures[key]
    for row in failing.failures.values():
        row["failed"] = 1

    async with staged(failing, clock, size=(160, 40)) as stage:
        await stage.press("7")

        assert "1 group, 1 task failed" in stage.text()


async def test_5_groups_stand_by_what_failed_and_where_those_with_failed_tasks_first(
    failing: MockServer, clock: FrozenClock
) -> None:
    async with staged(failing, clock, size=(160, 40)) as stage:
        await stage.press("7")

        text = stage.text()
        assert "2 groups, 3 tasks failed, 2 wait for another try" in text
        assert text.index("app/rotate.py in rotate") < text.index(BILLING)
        assert "ValueError" in stage.highlighted()
        assert "it went wrong" in stage.highlighted()
        assert "1m00 ago" in stage.highlighted()


async def test_5_all_of_a_group_is_retried_resolved_or_cancelled(failing: MockServer, clock: FrozenClock) -> None:
    async with staged(failing, clock) as stage:
        await stage.press("7", "r")
        assert acted(stage) == [("resume", 3)]
        assert stage.asked("freeze")[-1]["filter"] == {"failure": CELL, "status": ["failed"]}
        assert "resumed 3 tasks" in stage.text()
        await stage.press("S")
        assert "no tasks left to resolve" in stage.text()
        await stage.press("c")
        assert acted(stage)[1] == ("cancel", 5)


async def test_5_what_is_settled_by_hand_is_asked_for_first(failing: MockServer, clock: FrozenClock) -> None:
    async with staged(failing, clock) as stage:
        await stage.press("7", "S")
        assert "Resolve 3 tasks?" in stage.text()
        assert "They will count as completed by hand; this can't be undone." in stage.text()
        assert acted(stage) == []
        await stage.press("y")
        assert acted(stage) == [("resolve", 3)]


async def test_5_enter_shows_the_group_s_tasks_of_every_queue(failing: MockServer, clock: FrozenClock) -> None:
    async with staged(failing, clock) as stage:
        await stage.press("7", "enter")

        windows = [asked["window"] for asked in stage.asked("watch") if asked["topic"] == "tasks"]
        assert windows[-1]["filter"] == {"failure": CELL}


async def test_5_failures_are_told_until_they_were_looked_at_and_again_when_they_are_twice_as_many(
    failing: MockServer, clock: FrozenClock
) -> None:
    async with staged(failing, clock) as stage:
        await stage.pass_time(7200)
        await stage.press("exclamation_mark")
        assert "3 failed, app/rotate.py in rotate" in stage.text()
        await stage.press("7", "enter", "exclamation_mark")
        assert "3 failed, app/rotate.py" not in stage.text()

        failing.failures[CELL]["failed"] = 4
        failing.push_topic("failures")
        await stage.settle()

        assert "4 failed, app/rotate.py in rotate" in stage.text()
        failing.failures[CELL]["failed"] = 0
        failing.push_topic("failures")
        await stage.settle()
        assert "failed, app/rotate.py" not in stage.text()


async def test_5_all_failed_of_a_queue_are_retried_from_its_row(failing: MockServer, clock: FrozenClock) -> None:
    async with staged(failing, clock) as stage:
        await stage.press("1", "f")
        assert stage.asked("freeze")[-1]["filter"] == {"job": ROTATE, "status": ["failed"]}
        await stage.press("g", "f")
        assert stage.asked("freeze")[-1]["filter"] == {"status": ["failed"]}


async def test_5_the_status_bar_counts_what_failed_and_what_waits_for_another_try(
    failing: MockServer, clock: FrozenClock
) -> None:
    first = next(iter(failing.jobs.values()))
    first["counts"] |= {"failed": 12, "pending": 900}
    first["retrying"] = 19

    async with staged(failing, clock) as stage:
        every = stage.app.model.every_queue()
        assert every.failed >= 12
        assert every.retrying >= 19
        assert f"{every.failed} failed  {every.retrying} retrying" in stage.lines()[0]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [("error:timeout", 1), ("-error:timeout", 1), (f"job:{BILLING}", 1), ("rotate", 1), ("status:failed", 0), ("x", 0)],
)
async def test_9_groups_are_filtered_by_the_same_language(
    failing: MockServer, clock: FrozenClock, wanted: str, count: int
) -> None:
    async with staged(failing, clock) as stage:
        await stage.press("7")
        screen: Any = stage.app.screen
        screen.narrow(wanted)
        await stage.settle()

        assert len(screen.pane.rows.keys) == count

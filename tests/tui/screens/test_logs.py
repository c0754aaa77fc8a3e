"""The logs of a list, a queue or a worker as one, followed and searched."""

from typing import Any

import pytest

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import ROTATE, at
from tests.tui.stage import Stage, staged


def line(seconds_ago: float, message: str, level: str = "info") -> dict[str, Any]:
    return {"run_id": 0, "at": at(seconds_ago), "level": level, "message": message}


@pytest.fixture
def logging(server: MockServer) -> MockServer:
    """Three running tasks log something; the first of them for a worker of its own."""
    first, second, third = [row["id"] for row in server.tasks.values() if row["status"] == "running"][:3]
    server.logs = {
        first: [line(30, "opened camera"), line(10, "frame 3 has no cell", "warning")],
        second: [line(20, "turned by 90")],
        third: [line(5, "done \x1b[31mred")],
    }
    return server


def told(stage: Stage) -> list[str]:
    """The lines from the newest on, without what stands before the message."""
    found = [row for row in stage.lines() if row[3:4] in "> " and ":" in row[4:8]]
    return [row.strip("│ ").split("  ")[-1].strip() for row in found]


def asked(stage: Stage, op: str) -> int:
    return len(stage.asked(op))


async def test_the_logs_of_the_listed_tasks_are_one_with_the_newest_first(
    logging: MockServer, clock: FrozenClock
) -> None:
    async with staged(logging, clock) as stage:
        await stage.press("2", "l")
        await stage.until(lambda: "opened camera" in stage.text())

        text = stage.text()
        assert f"Logs  job:{ROTATE}" in text
        places = [text.index(words) for words in ("done", "frame 3 has no cell", "turned by 90", "opened camera")]
        assert places == sorted(places)
        assert "\x1b" not in text
        assert "10 tasks, the 10 that changed last" in text


async def test_new_lines_come_by_themselves_and_the_highlight_stays_with_the_newest_until_it_is_moved(
    logging: MockServer, clock: FrozenClock
) -> None:
    key = next(iter(logging.logs))
    async with staged(logging, clock) as stage:
        await stage.press("2", "l")
        await stage.until(lambda: "opened camera" in stage.text())
        assert "done" in stage.highlighted()
        logging.logs[key].append(line(1, "one more"))
        await stage.pass_time(2.5)
        await stage.until(lambda: "one more" in stage.text())
        assert "one more" in stage.highlighted()

        await stage.press("down")
        logging.logs[key].append(line(0, "and another"))
        await stage.pass_time(2.5)
        await stage.until(lambda: "and another" in stage.text())
        assert "done" in stage.highlighted()
        await stage.press("F")
        assert "and another" in stage.highlighted()


async def test_a_frozen_log_stands_still(logging: MockServer, clock: FrozenClock) -> None:
    key = next(iter(logging.logs))
    async with staged(logging, clock) as stage:
        await stage.press("2", "l")
        await stage.until(lambda: "opened camera" in stage.text())
        await stage.press("z")
        logging.logs[key].append(line(0, "one more"))
        before = asked(stage, "logs")
        await stage.pass_time(2.5)
        await stage.until(lambda: asked(stage, "logs") > before)
        await stage.settle()

        assert "one more" not in stage.text()
        await stage.press("z")
        assert "one more" in stage.text()


async def test_a_text_is_searched_and_esc_leaves_the_search_then_the_screen(
    logging: MockServer, clock: FrozenClock
) -> None:
    async with staged(logging, clock) as stage:
        await stage.press("2", "l")
        await stage.until(lambda: "opened camera" in stage.text())
        await stage.press("slash", *"frame", "enter")

        assert "frame 3 has no cell" in stage.text()
        assert "opened camera" not in stage.text()
        assert "1 of 4 lines" in stage.text()
        await stage.press("slash", *"x" * 5, "enter")
        assert "No line has framexxxxx in it" in stage.text()
        await stage.press("escape")
        assert "opened camera" in stage.text()
        await stage.press("escape")
        assert "2 Tasks" in stage.text()


async def test_a_queues_and_a_workers_logs_are_those_of_their_tasks(logging: MockServer, clock: FrozenClock) -> None:
    async with staged(logging, clock) as stage:
        await stage.press("l")
        await stage.until(lambda: "opened camera" in stage.text())
        assert f"Logs  job:{ROTATE}" in stage.text()
        await stage.press("3", "down", "down", "down", "l")
        await stage.settle()

        assert "Logs  worker:" in stage.text()
        assert stage.asked("freeze")[-1]["filter"]["worker"]


async def test_a_line_leads_to_its_task_and_what_rests_is_not_read_again(
    logging: MockServer, clock: FrozenClock
) -> None:
    for row in logging.tasks.values():
        row["status"] = "completed"
    async with staged(logging, clock) as stage:
        await stage.press("2", "l")
        await stage.until(lambda: "opened camera" in stage.text())
        await stage.settle()
        before = asked(stage, "logs")
        for _ in range(3):
            await stage.pass_time(2.5)
        assert asked(stage, "logs") == before
        assert asked(stage, "freeze") == 1

        await stage.press("enter")
        assert stage.asked("watch")[-1]["topic"] == "task"


async def test_a_server_that_refuses_is_said_to(logging: MockServer, clock: FrozenClock) -> None:
    logging.refuses["freeze"] = "forbidden"
    async with staged(logging, clock) as stage:
        await stage.press("2", "l")
        await stage.until(lambda: "The server shows no logs" in stage.text())

        assert "as the test wants it" in stage.text()

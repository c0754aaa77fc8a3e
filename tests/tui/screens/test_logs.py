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


def watched(stage: Stage) -> list[dict[str, Any]]:
    """What was asked for of logs."""
    return [one for one in stage.asked("watch") if one["topic"] == "logs"]


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
        assert "3 tasks, of the 10 that run or changed last" in text


async def test_new_lines_come_by_themselves_and_the_highlight_stays_with_the_newest_until_it_is_moved(
    logging: MockServer, clock: FrozenClock
) -> None:
    key = next(iter(logging.logs))
    async with staged(logging, clock) as stage:
        await stage.press("2", "l")
        await stage.until(lambda: "opened camera" in stage.text())
        assert "done" in stage.highlighted()
        logging.logs[key].append(line(1, "one more"))
        logging.push_topic("logs")
        await stage.until(lambda: "one more" in stage.text())
        assert "one more" in stage.highlighted()

        await stage.press("down")
        logging.logs[key].append(line(0, "and another"))
        logging.push_topic("logs")
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
        logging.push_topic("logs")
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
        assert "No line contains xxxxx" in stage.text()
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
        assert watched(stage)[-1]["window"]["filter"]["worker"]


async def test_a_line_leads_to_its_task(logging: MockServer, clock: FrozenClock) -> None:
    async with staged(logging, clock) as stage:
        await stage.press("2", "l")
        await stage.until(lambda: "opened camera" in stage.text())

        await stage.press("enter")
        assert stage.asked("watch")[-1]["topic"] == "task"


async def test_lines_are_pushed_in_one_subscription_and_nothing_is_asked_for_them(
    logging: MockServer, clock: FrozenClock
) -> None:
    async with staged(logging, clock) as stage:
        await stage.press("2", "l")
        await stage.until(lambda: "opened camera" in stage.text())
        before = [one for one in stage.server.asked if one["op"] != "ping"]

        for _ in range(3):
            await stage.pass_time(2.5)

        assert [one for one in stage.server.asked if one["op"] != "ping"] == before
        assert len(watched(stage)) == 1
        await stage.press("escape")
        await stage.until(lambda: "logs" not in {one["topic"] for one in logging.watched.values()})


async def test_the_pane_tells_how_old_it_is_and_that_older_lines_are_left_out(
    logging: MockServer, clock: FrozenClock
) -> None:
    logging.capped = True
    async with staged(logging, clock) as stage:
        await stage.press("2", "l")
        await stage.until(lambda: "opened camera" in stage.text())
        assert "4 of 4 lines, older ones are left out" in stage.text()

        clock.advance(3.0)
        await stage.settle()
        stage.app.screen.draw_ages()  # type: ignore[attr-defined] - as each second does
        await stage.settle()
        assert "3.0s old" in stage.line_of("Logs  job")


async def test_a_server_that_refuses_is_said_to(logging: MockServer, clock: FrozenClock) -> None:
    async with staged(logging, clock) as stage:
        logging.refuses["watch"] = "forbidden"
        await stage.press("2", "l")
        await stage.until(lambda: "The server does not show the logs" in stage.text())

        assert "as the test wants it" in stage.text()

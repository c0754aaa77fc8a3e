"""A list: the row under the mouse is meant, and not the one beneath; the frame says which rows are seen."""

import re
from collections.abc import Callable

import pytest
from textual.events import MouseDown, MouseScrollDown, MouseUp

from tests.tui.happenings import limit, schedule, target
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import Stage, staged

TITLES = "PAYLOAD"
"""Stands in the line of titles of the tasks."""


async def clicked(stage: Stage, place: int, *, times: int = 1) -> None:
    await stage.pilot.click(offset=(20, place), times=times)
    await stage.settle()


def place_of(stage: Stage, word: str) -> int:
    return next(place for place, line in enumerate(stage.lines()) if word in line)


async def test_the_row_under_the_mouse_is_highlighted(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        queue = place_of(stage, ":RDF")
        await clicked(stage, queue)
        assert stage.lines()[queue].startswith("│ > ")

        for below in (1, 4):
            task = place_of(stage, TITLES) + below
            await clicked(stage, task)
            assert stage.lines()[task] == stage.highlighted()


async def test_the_titles_and_the_frame_are_no_rows(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "down")
        highlighted = stage.highlighted()
        titles = place_of(stage, TITLES)

        for place in (titles - 1, titles, place_of(stage, "by position")):
            await clicked(stage, place)
            assert stage.highlighted() == highlighted


async def test_the_highlighted_row_is_in_sight_when_more_rows_come_at_once_than_fit(
    server: MockServer, clock: FrozenClock
) -> None:
    """The queue with the most work is chosen where the list begins: of a low list it stood beneath the end."""
    jobs = dict(server.jobs)
    server.jobs.clear()
    async with staged(server, clock, size=(61, 15)) as stage:
        jobs[list(jobs)[-1]]["counts"]["pending"] = 100_000
        server.jobs.update(jobs)
        server.push_topic("jobs")
        await stage.settle()

        assert "100,000" in stage.highlighted()


async def test_a_second_click_opens_the_row(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        place = place_of(stage, TITLES) + 2
        key = next(key for key in server.tasks if f" {key[-8:]} " in stage.lines()[place])

        await clicked(stage, place, times=2)

        assert f" {key} " in stage.text()


async def test_a_third_click_opens_the_row_no_second_time(server: MockServer, clock: FrozenClock) -> None:
    """It may come before what the second one opens: two screens of the task lay one on the other."""
    async with staged(server, clock) as stage:
        await stage.press("2")
        place = place_of(stage, TITLES) + 2
        for _ in range(3):
            for kind in (MouseDown, MouseUp):
                stage.app.post_message(kind(None, 20, place, 0, 0, 1, False, False, False, 20, place))
        await stage.settle()
        assert "Payload" in stage.text()

        await stage.press("escape")

        assert "1 Queues" in stage.text()


async def test_the_wheel_takes_the_cursor_along(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        first = stage.highlighted()

        await stage.pilot._post_mouse_events([MouseScrollDown], offset=(20, place_of(stage, TITLES) + 2))
        await stage.settle()

        assert first not in stage.lines()
        assert stage.lines()[place_of(stage, TITLES) + 1] == stage.highlighted()


def many_schedules(server: MockServer) -> None:
    server.schedules = {str(number): schedule(number, f"s{number:02}", due=60.0) for number in range(30)}


def many_limits(server: MockServer) -> None:
    server.limits = {str(number): limit(number, f"l{number:02}") for number in range(30)}


def many_targets(server: MockServer) -> None:
    server.targets = {str(number): target(number, f"t{number:02}") for number in range(30)}


@pytest.mark.parametrize(("screen", "happens"), [("4", many_targets), ("5", many_schedules), ("8", many_limits)])
async def test_a_list_with_more_rows_than_there_is_room_for_says_which_are_seen(
    screen: str, happens: Callable[[MockServer], None], server: MockServer, clock: FrozenClock
) -> None:
    happens(server)

    async with staged(server, clock, size=(80, 24)) as stage:
        await stage.press(screen)
        assert re.search(r"└─ rows 1-\d+ of 30  ", stage.text())

        await stage.press("G")
        assert re.search(r"└─ rows \d+-30 of 30  ", stage.text())

        await stage.pilot.resize_terminal(80, 50)
        await stage.settle()
        assert "of 30" not in stage.text()

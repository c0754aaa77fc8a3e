"""The mouse in a list: what is under it is meant, and not the row beneath."""

from textual.events import MouseScrollDown

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


async def test_a_second_click_opens_the_row(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        place = place_of(stage, TITLES) + 2
        key = next(key for key in server.tasks if f" {key[-8:]} " in stage.lines()[place])

        await clicked(stage, place, times=2)

        assert f" {key} " in stage.text()


async def test_the_wheel_takes_the_cursor_along(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        first = stage.highlighted()

        await stage.pilot._post_mouse_events([MouseScrollDown], offset=(20, place_of(stage, TITLES) + 2))
        await stage.settle()

        assert first not in stage.lines()
        assert stage.lines()[place_of(stage, TITLES) + 1] == stage.highlighted()

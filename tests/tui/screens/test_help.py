"""The help: every key, wrapped to the screen, searched, and opened where one is."""

import pytest

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import Stage, staged
from treadle_tui.core.verbs.actions import ACTIONS


@pytest.mark.crossed
async def test_nothing_of_it_is_cut_off_however_narrow_the_screen_is(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, size=(62, 600)) as stage:
        await stage.press("question_mark")

        words = " ".join(" ".join(inside(stage)).split())
        assert [action.name for action in ACTIONS if action.help not in words] == []
        # What goes on in the next line stands beneath its beginning.
        lines = inside(stage)
        begun = next(place for place, line in enumerate(lines) if "Open the highlighted row" in line)
        assert lines[begun].index("Open") == len(lines[begun + 1]) - len(lines[begun + 1].lstrip())


async def test_every_key_of_an_action_is_named(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, size=(120, 600)) as stage:
        await stage.press("question_mark")

        lines = [" ".join(line.split()) for line in inside(stage)]
        assert "down down Go one row down. Also j." in lines
        assert "pgdn page down Go one page down. Also ^d." in lines
        assert "G bottom Go to the last row. Also end." in lines
        assert "q quit Quit the dashboard; tasks and workers carry on. Also ^q." in lines


async def test_it_opens_with_the_keys_of_where_one_is(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, size=(100, 24)) as stage:
        for keys, title in ((("3",), "Workers"), (("1", "2", "enter"), "A task")):
            await stage.press(*keys, "question_mark")
            assert inside(stage)[0].strip() == title
            await stage.press("escape")


async def test_it_is_searched_and_escape_leaves_the_search_first(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, size=(100, 24)) as stage:
        await stage.press("question_mark", "slash", *"clipboard", "enter")
        assert "to the clipboard" in stage.text()
        first = stage.text()
        assert "Help  1 of " in first
        await stage.press("n")
        assert "Help  2 of " in stage.text()
        await stage.press("escape")
        assert "Help ─" in stage.text()
        await stage.press("escape")
        assert "Help" not in stage.text()


def inside(stage: Stage) -> list[str]:
    """The lines within the help's frame."""
    lines = stage.lines()
    top = next(place for place, line in enumerate(lines) if "─ Help" in line)
    bottom = next(place for place, line in enumerate(lines) if "/ find" in line)
    left = lines[top].index("─ Help")
    right = lines[top].index("┐", left)
    return [line[left:right].rstrip() for line in lines[top + 1 : bottom]]

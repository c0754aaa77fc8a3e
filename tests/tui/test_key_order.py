"""Keys that come in one burst into a line are taken one after the other."""

import pytest
from textual.widgets import Input

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import staged
from treadle_tui.app import Dashboard


def line(app: Dashboard) -> str:
    """What stands in the line in focus."""
    assert isinstance(app.focused, Input)
    return app.focused.value


@pytest.mark.parametrize("opens", ["slash", "colon", "x", "ctrl+p"])
async def test_what_edits_a_line_does_so_between_the_letters_that_it_was_typed_between(
    server: MockServer, clock: FrozenClock, opens: str
) -> None:
    async with staged(server, clock) as stage:
        await stage.burst(opens, "home", *"ab", "backspace", "c", "left", "d")
        await stage.until(lambda: isinstance(stage.app.focused, Input))
        await stage.settle()

        assert line(stage.app).startswith("adc")
    assert stage.asked("actions") == []
    assert stage.asked("job") == []


async def test_a_completion_ends_before_what_is_typed_behind_it(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.burst("colon", *"pause-q", "tab", "!")

        assert line(stage.app) == "pause-queue !"


@pytest.mark.parametrize(("leaves", "filtered"), [("enter", "angle"), ("escape", ""), ("down", "")])
async def test_a_key_behind_the_one_that_leaves_the_filter_is_none_of_its_letters(
    server: MockServer, clock: FrozenClock, leaves: str, filtered: str
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        await stage.burst("slash", *"angle", leaves, "z")
        await stage.settle()

        assert "z freeze on" in stage.text()
        await stage.press("slash")
        assert line(stage.app) == filtered


async def test_a_key_behind_the_one_that_ends_a_command_acts_on_what_it_has_gone_to(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.burst("colon", *"tasks billing", "enter", "p")
        await stage.settle()

        assert stage.asked("job") == []
        assert "2 Tasks  @global:tasks:billing" in stage.text()


@pytest.mark.parametrize(("chosen", "shown"), [("help", "Show every key"), ("limits", "Go to the limits")])
async def test_a_palette_that_is_opened_before_the_last_one_s_command_has_come_hinders_no_other(
    server: MockServer, clock: FrozenClock, chosen: str, shown: str
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("ctrl+p", *chosen)
        await stage.until(lambda: shown in stage.text())

        await stage.burst("enter", "enter", "ctrl+p")
        await stage.press("ctrl+p", "ctrl+p", *["escape"] * 4, "ctrl+p", "escape", "3")

        assert "3 Workers" in stage.text()

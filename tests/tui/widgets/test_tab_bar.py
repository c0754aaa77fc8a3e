"""The names of a task's sheets: whole where they just fit, and without their counts where they do not."""

import pytest

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import staged
from treadle_tui.widgets.tab_bar import Tab, TabBar


@pytest.mark.parametrize(("spare", "active", "counted"), [(0, "runs", True), (-1, "runs", False), (0, "last", True)])
async def test_names_that_just_fit_are_whole(
    server: MockServer,
    clock: FrozenClock,
    monkeypatch: pytest.MonkeyPatch,
    spare: int,
    active: str,
    counted: bool,
) -> None:
    async with staged(server, clock, size=(100, 30)) as stage:
        await stage.press("2", "enter")
        bar = stage.app.screen.query_one(TabBar)
        # Before the last name stands a blank, or a bracket, which has one behind the name too.
        taken = len("  Runs 4  Err 2 ") + (1 if active == "runs" else 2)
        last = "e" * (bar.size.width - taken - spare)

        show = bar.show_tabs
        # What comes of the task meanwhile would show its own.
        monkeypatch.setattr(bar, "show_tabs", lambda *_given: None)
        show([Tab("runs", "Runs", "4"), Tab("error", "Err", "2"), Tab("last", last)], active)
        await stage.settle()

        line = next(line for line in stage.lines() if "Runs" in line and "eeee" in line)
        assert "…" not in line
        assert ("Err 2" in line) is counted

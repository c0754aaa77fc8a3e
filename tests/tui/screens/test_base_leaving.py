"""A screen on its way out draws nothing: what it was made of may be gone already, and its colours with it."""

import pytest

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import dashboard, settle, staged
from treadle_tui.core.state.model import Dirty
from treadle_tui.screens.workers import Workers
from treadle_tui.widgets.status_bar import StatusBar


async def test_a_clock_that_strikes_while_the_dashboard_ends_draws_nothing(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = dashboard(server, clock)
    drawn: list[Dirty] = []
    struck: list[bool] = []

    def strike(_: StatusBar) -> None:
        struck.append(app.is_running)
        app.model.changed(Dirty.ALL)
        app.tick()
        app.flush()

    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        assert app.front_screen is not None
        monkeypatch.setattr(app.front_screen, "draw", drawn.append)
        monkeypatch.setattr(StatusBar, "on_unmount", strike, raising=False)

    assert struck == [False]
    assert drawn == []


async def test_what_was_still_to_be_drawn_on_a_screen_that_was_left_is_not_drawn(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("3")
        left = stage.app.front_screen
        assert isinstance(left, Workers)
        drawn: list[Dirty] = []
        monkeypatch.setattr(left, "draw", drawn.append)
        await stage.press("1")
        drawn.clear()

        left.show(Dirty.ALL)

    assert drawn == []

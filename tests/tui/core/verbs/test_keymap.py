"""The reader's own keys: how they are written, and that no two actions share one."""

import pytest

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import dashboard, settle
from treadle_tui.core.setup.app_state import AppState
from treadle_tui.core.verbs.actions import ACTIONS, BY_NAME
from treadle_tui.core.verbs.keymap import KeymapError, read_keymap


def test_every_key_of_the_registry_can_be_written_in_a_keymap() -> None:
    for action in ACTIONS:
        if action.key:
            assert read_keymap({action.name: action.key.split(",")}).keys(action) == action.key


@pytest.mark.parametrize(
    ("written", "key"),
    [("^k", "ctrl+k"), ("ctrl+]", "ctrl+right_square_bracket"), ("'", "apostrophe"), ("ü", "ü"), ("del", "delete")],
)
def test_keys_are_written_as_people_know_them(written: str, key: str) -> None:
    assert read_keymap({"seek": written}).keys(BY_NAME["seek"]) == key


def test_a_key_that_works_everywhere_clashes_with_one_of_any_pane() -> None:
    with pytest.raises(KeymapError, match='both have the key "space" in tasks'):
        read_keymap({"seek": " "})


def test_two_actions_may_swap_their_keys() -> None:
    keymap = read_keymap({"pause": "r", "resume": "p"})

    assert (keymap.cap("pause"), keymap.cap("resume"), keymap.cap("pause-queue")) == ("r", "p", "p")


async def test_a_keymap_changes_what_keys_do_and_what_is_said_of_them(server: MockServer, clock: FrozenClock) -> None:
    app = dashboard(server, clock, app_state=AppState(keymap=read_keymap({"pause": "r", "resume": "p", "help": "f1"})))
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        await pilot.press("2", "r")
        await settle(pilot)
        assert server.asked[-1]["action"] == "pause"

        footer = app.screen._compositor.render_strips()[-1].text
        assert "r pause" in footer
        assert "f1 help" in footer
        await pilot.press("question_mark")
        assert "Help" not in type(app.screen).__name__
        await pilot.press("f1")
        assert type(app.screen).__name__ == "Help"

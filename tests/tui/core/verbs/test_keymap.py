"""The reader's own keys: how they are written, and that no two actions share one."""

import pytest

from tests.tui.happenings import a_storied_task_with_much_in_it
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import ROTATE
from tests.tui.stage import dashboard, settle, staged, typed
from treadle_tui.core.setup.app_state import AppState
from treadle_tui.core.verbs.actions import ACTIONS, BY_NAME
from treadle_tui.core.verbs.keymap import KeymapError, read_keymap
from treadle_tui.screens.main import Main
from treadle_tui.widgets.outcomes import Outcomes


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
    with pytest.raises(KeymapError, match='both use the key "space" in tasks'):
        read_keymap({"seek": " "})


def test_two_actions_may_swap_their_keys() -> None:
    keymap = read_keymap({"pause": "r", "resume": "p"})

    assert (keymap.cap("pause"), keymap.cap("resume"), keymap.cap("pause-queue")) == ("r", "p", "p")


async def test_a_keymap_changes_what_keys_do_and_what_is_said_of_them(server: MockServer, clock: FrozenClock) -> None:
    app = dashboard(server, clock, app_state=AppState(keymap=read_keymap({"pause": "r", "resume": "p", "help": "f1"})))
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot)
        await pilot.press("2")
        await settle(pilot)
        footer = app.screen._compositor.render_strips()[-1].text
        assert "r pause" in footer
        assert "f1 help" in footer
        await pilot.press("r")
        await settle(pilot)
        assert server.asked[-1]["action"] == "pause"

        await pilot.press("question_mark")
        assert "Help" not in type(app.screen).__name__
        await pilot.press("f1")
        assert type(app.screen).__name__ == "Help"


OWN = AppState(
    keymap=read_keymap({"open": "f2", "back": "f3", "filter": "f4", "queues": "f5", "follow": "f6", "fold": "f7"})
)


@pytest.mark.crossed
async def test_no_hint_names_a_key_that_the_reader_has_given_away(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, app_state=OWN) as stage:
        await stage.press("3")
        assert "f2 its tasks  f3 back" in stage.text()
        await stage.press("5")
        assert "f2 opens the last task" in stage.text()
        await stage.press("7")
        assert "f2 shows the tasks" in stage.text()
        await stage.press("8")
        assert "f2 folds the keys" in stage.text()
        await stage.press("exclamation_mark")
        assert "f2 goes there" in stage.text()
        for screen in ("targets", "schedules", "limits", "failures"):
            await typed(stage, screen)
            await stage.press("f4", *"tag:a=nobody", "enter")
            assert "Press f3 to see all, f4 to change the filter." in stage.text(), screen
        await typed(stage, "filter status:cancelled")
        assert "Press f3 to see all tasks of the queue, f4 to change the filter." in stage.text()
        await stage.press("f3")
        await typed(stage, "filter status:pending")
        server.matching({"filter": {"job": ROTATE, "status": ["pending"]}})[0]["status"] = "running"
        server.push_topic("tasks")
        await stage.settle()
        assert "no longer here: f2 shows it" in stage.text()
        await stage.press("f6", "p")
        assert "press f6 to stay on this task" in stage.text()


@pytest.mark.parametrize("own", [{"up": "i", "pause": "k"}, {"left": "f9", "pause": "h"}])
async def test_a_key_that_a_text_moves_by_does_what_the_reader_has_given_it_to(
    own: dict[str, str], server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock, app_state=AppState(keymap=read_keymap(own))) as stage:
        await stage.press("2", "enter", own["pause"])

        assert [request["action"] for request in stage.asked("actions")] == ["pause"]


async def test_the_help_and_a_report_go_by_the_keys_that_open_them(server: MockServer, clock: FrozenClock) -> None:
    own = AppState(keymap=read_keymap({"help": "f1", "filter": "f2", "next-match": "f3", "report": "f4"}))

    async with staged(server, clock, app_state=own) as stage:
        await stage.press("f1")
        assert "f2 find   esc close" in stage.text()
        await stage.press("f2", *"pause", "enter", "f3")
        assert "2 of" in stage.text()
        assert "f3 next   N last" in stage.text()
        await stage.press("f1")
        assert isinstance(stage.app.screen, Main)

        await stage.press("2", "space", "space", "p", "f4")
        assert isinstance(stage.app.screen, Outcomes)
        await stage.press("f4")
        assert isinstance(stage.app.screen, Main)


def test_what_a_text_moves_by_can_be_given_to_nothing_else_as_long_as_it_has_it() -> None:
    with pytest.raises(KeymapError, match='left and pause both use the key "h"'):
        read_keymap({"pause": "h"})


async def test_a_payload_names_the_key_that_shows_more_of_it(server: MockServer, clock: FrozenClock) -> None:
    a_storied_task_with_much_in_it(server)

    async with staged(server, clock, app_state=OWN) as stage:
        await stage.press("2", "f2", *["shift+tab"] * 3, *["down"] * 6, "f7", "f7", "G", "up", "up")

        assert "more: f7 shows the next" in stage.text()


async def test_where_nothing_is_the_readers_own_keys_lead_on(clock: FrozenClock) -> None:
    async with staged(MockServer(clock), clock, app_state=OWN) as stage:
        await stage.press("7")
        assert "Press f5 for the queues." in stage.text()
        await stage.press("exclamation_mark")
        assert "Press f5 for the queues." in stage.text()

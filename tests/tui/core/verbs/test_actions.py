"""The registry of actions: none is missing from any of the places that are made of it."""

from pathlib import Path

import pytest
from textual.binding import Binding

from tests.tui.happenings import only_tasks_of_a_flow
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import staged
from treadle_tui.core.draw.text import plain
from treadle_tui.core.verbs.action import Action, cap
from treadle_tui.core.verbs.actions import ACTIONS, BY_NAME, MOVES, WAYS, offered
from treadle_tui.core.verbs.commands import read_command
from treadle_tui.core.verbs.key_table import key_table
from treadle_tui.core.verbs.keymap import Keymap
from treadle_tui.core.verbs.scopes import SCOPE_TITLES, Scope
from treadle_tui.screens.attention import Attention
from treadle_tui.screens.base import BaseScreen
from treadle_tui.screens.detail import Detail
from treadle_tui.screens.events import Events
from treadle_tui.screens.failures import Failures
from treadle_tui.screens.flow import Flow
from treadle_tui.screens.help import help_lines
from treadle_tui.screens.limits import Limits
from treadle_tui.screens.logs import Logs
from treadle_tui.screens.main import Main
from treadle_tui.screens.schedules import Schedules
from treadle_tui.screens.targets import Targets
from treadle_tui.screens.workers import Workers
from treadle_tui.widgets.grid import QueueGrid, TaskGrid, grid_of

WHERE = {
    "flow": (grid_of("flow"), Flow),
    "queues": (QueueGrid, Main),
    "tasks": (TaskGrid, Main),
    "workers": (grid_of("workers"), Workers),
    "targets": (grid_of("targets"), Targets),
    "limits": (grid_of("limits"), Limits),
    "schedules": (grid_of("schedules"), Schedules),
    "failures": (grid_of("failures"), Failures),
    "events": (grid_of("events"), Events),
    "attention": (grid_of("attention"), Attention),
    "logs": (grid_of("logs"), Logs),
    "detail": (Detail, Detail),
    "everywhere": (BaseScreen, BaseScreen),
}

PAIRS = [(scope, action) for scope in WHERE for action in ACTIONS if scope in action.scopes]


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(ACTIONS)


def test_no_key_means_two_things_in_one_place() -> None:
    for scope in WHERE:
        here = [action for action in ACTIONS if action.scopes & {scope, "everywhere"} and action.key]
        keys = [key for action in here for key in action.key.split(",")]
        assert len(keys) == len(set(keys)), scope


@pytest.mark.parametrize(("scope", "action"), PAIRS, ids=lambda value: getattr(value, "name", value))
def test_every_action_has_its_key_or_command_and_does_something(scope: str, action: Action) -> None:
    bound, does = WHERE[scope]
    bindings = [binding for binding in bound.BINDINGS if isinstance(binding, Binding)]
    handler = action.name.replace("-", "_")

    made = [(binding.key, binding.action, binding.id) for binding in bindings]
    assert not action.key or (action.key, f"app.act('{action.name}')", action.name) in made
    assert action.name in MOVES | WAYS or hasattr(does, f"act_{handler}") or hasattr(does, f"with_{handler}")
    assert action.key or action.takes, "an action without a key is a command about something"


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_every_action_that_takes_something_knows_what_to_do_with_it(action: Action) -> None:
    screens = [WHERE[scope][1] for scope in action.scopes]

    known = any(hasattr(screen, f"with_{action.name.replace('-', '_')}") for screen in screens)

    assert known == (action.takes is not None)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_every_action_is_a_command_by_its_name(action: Action) -> None:
    assert read_command(f":{action.name}").action is action
    assert read_command(action.name.replace("-", " ")).action is action


def test_every_place_where_keys_work_has_a_name() -> None:
    assert {scope for action in ACTIONS for scope in action.scopes} == set(SCOPE_TITLES) == set(WHERE)


def test_every_action_is_in_the_help() -> None:
    said = [plain(line) for line in help_lines(Keymap(), read_only=False)]

    for action in ACTIONS:
        assert any(action.help in line and Keymap().cap(action) in line for line in said), action.name


def test_every_action_is_in_the_documentation_which_is_made_of_the_registry() -> None:
    page = (Path(__file__).parents[4] / "docs" / "dashboard.md").read_text()
    table = key_table(Keymap())

    assert all(f"`:{action.name}" in table for action in ACTIONS)
    assert table in page, "the keys are other ones now: put what `treadle watch --keys` prints into docs/dashboard.md"


SOMETIMES = {"resume", "rerun", "resume-queue", "edit", "drain-worker", "remove-worker", "flow"}
"""What the last line names only where it means something."""

FOCUSED: list[tuple[tuple[str, ...], Scope]] = [
    ((), "queues"),
    (("2",), "tasks"),
    (("3",), "workers"),
    (("2", "l"), "logs"),
    (("escape", "2", "enter"), "detail"),
]


async def test_the_footer_shows_what_can_be_done_where_the_focus_is(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, size=(240, 40)) as stage:
        for keys, scope in FOCUSED:
            await stage.press(*keys)
            footer = stage.lines()[-1]
            # No line was logged that could be opened or copied.
            left_out = SOMETIMES | ({"open", "copy"} if scope == "logs" else set())
            for action in offered(scope, read_only=False):
                is_named = f"{Keymap().cap(action)} {action.label}" in footer
                assert is_named or not action.footer or action.name in left_out, (scope, action.name)


async def test_the_footer_names_what_means_something_for_what_is_highlighted(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("3")
        assert "old-1" in stage.highlighted()
        assert "D remove" in stage.lines()[-1]
        assert "Z drain" not in stage.lines()[-1]
        await stage.press("down")
        assert "D remove" not in stage.lines()[-1]
        assert "Z drain" in stage.lines()[-1]


@pytest.mark.parametrize("is_of_one", [True, False], ids=["of a flow", "of none"])
async def test_the_way_to_a_flow_is_named_for_a_task_that_is_of_one(
    server: MockServer, clock: FrozenClock, is_of_one: bool
) -> None:
    if is_of_one:
        only_tasks_of_a_flow(server)
    async with staged(server, clock, size=(160, 40)) as stage:
        await stage.press("2", "enter")

        assert ("T flow" in stage.lines()[-1]) is is_of_one


async def test_the_palette_offers_every_action_of_the_screen_and_runs_it(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock, size=(100, 160)) as stage:
        await stage.press("ctrl+p")
        await stage.until(lambda: "Quit the dashboard" in stage.text())
        for action in offered("queues", read_only=False):
            assert action.help[:60] in stage.text(), action.name

        await stage.press(*"workers")
        await stage.until(lambda: "Go to the workers." in stage.text())
        await stage.press("enter")
        await stage.until(lambda: "3 Workers" in stage.text())


def test_the_help_in_a_browser_says_which_keys_are_off_there() -> None:
    here, there = ([plain(line) for line in help_lines(Keymap(), read_only=False, web=web)] for web in (False, True))

    off = {line.split()[0] for line in there if "Off in a browser." in line}
    assert off == {cap(action.key) for action in ACTIONS if action.local}
    assert [line.replace(" Off in a browser.", "") for line in there] == here

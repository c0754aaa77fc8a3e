"""The registry of actions: none is missing from any of the places that are made of it."""

import pytest
from textual.binding import Binding

from treadle_tui.core.actions import ACTIONS, BY_NAME, offered
from treadle_tui.core.text import plain
from treadle_tui.screens.attention import Attention, ConcernGrid
from treadle_tui.screens.board import Board
from treadle_tui.screens.detail import Detail
from treadle_tui.screens.events import EventGrid, Events
from treadle_tui.screens.help import help_lines
from treadle_tui.screens.main import Main
from treadle_tui.screens.targets import TargetGrid, Targets
from treadle_tui.screens.workers import Workers
from treadle_tui.widgets.grid import MOVES, QueueGrid, TaskGrid, WorkerGrid

from .mock import FrozenClock, MockServer
from .stage import staged

PLACES = {
    "queues": (QueueGrid, Main),
    "tasks": (TaskGrid, Main),
    "workers": (WorkerGrid, Workers),
    "targets": (TargetGrid, Targets),
    "events": (EventGrid, Events),
    "attention": (ConcernGrid, Attention),
    "detail": (Detail, Detail),
    "everywhere": (Board, Board),
}

PAIRS = [(scope, action) for scope in PLACES for action in ACTIONS if scope in action.scopes]


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(ACTIONS)


def test_no_key_means_two_things_in_one_place() -> None:
    for scope in PLACES:
        keys = [key for action in ACTIONS if action.scopes & {scope, "everywhere"} for key in action.key.split(",")]
        assert len(keys) == len(set(keys)), scope


@pytest.mark.parametrize(("scope", "action"), PAIRS, ids=lambda value: getattr(value, "name", value))
def test_every_action_has_its_key_and_does_something(scope: str, action: object) -> None:
    assert isinstance(action, type(ACTIONS[0]))
    bound, does = PLACES[scope]
    bindings = [binding for binding in bound.BINDINGS if isinstance(binding, Binding)]

    assert (action.key, f"app.act('{action.name}')") in [(binding.key, binding.action) for binding in bindings]
    assert action.name in MOVES or hasattr(does, f"act_{action.name.replace('-', '_')}")


def test_every_action_is_in_the_help() -> None:
    said = [plain(line) for line in help_lines(read_only=False)]

    for action in ACTIONS:
        assert any(action.help in line and action.keycap in line for line in said), action.name


async def test_the_footer_shows_what_can_be_done_where_the_focus_is(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, size=(200, 40)) as stage:
        for keys, scope in (((), "queues"), (("2",), "tasks"), (("3",), "workers"), (("2", "enter"), "detail")):
            await stage.press(*keys)
            footer = stage.lines()[-1]
            for action in offered(scope, read_only=False):  # type: ignore[arg-type]
                assert not action.footer or f"{action.keycap} {action.label}" in footer, (scope, action.name)


async def test_the_palette_offers_every_action_of_the_screen_and_runs_it(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock, size=(100, 80)) as stage:
        await stage.press("ctrl+p")
        await stage.until(lambda: "Leave the dashboard" in stage.text())
        for action in offered("queues", read_only=False):
            assert action.help[:60] in stage.text(), action.name

        await stage.press(*"workers")
        await stage.until(lambda: "Go to the workers." in stage.text())
        await stage.press("enter")
        await stage.until(lambda: "3 Workers" in stage.text())

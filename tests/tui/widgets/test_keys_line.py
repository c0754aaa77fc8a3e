"""Whatever takes keys says which, dialogs and lines that are typed in too."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable

import pytest
from textual.screen import ModalScreen

import treadle_tui.screens
import treadle_tui.widgets
from tests.tui.happenings import limits_are_full, schedules_tick, targets_are_held, tasks_have_failed
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import BILLING, ROTATE, task
from tests.tui.stage import Stage, lose_highlighted, staged

DIALOGS = {
    "Confirm": (("2", "space", "space", "c"), ["y yes", "n esc no"]),
    "Confirm, of many": (("2", "asterisk", "c"), ["type 828 to confirm", "enter confirm", "esc leave"]),
    "Question": (("2", "x", "ctrl+u", *"/etc/passwd", "enter"), ["y overwrite it", "esc leave"]),
    "PathPrompt": (("2", "x"), ["enter write", "tab complete", "esc leave"]),
    "PathPrompt, completed": (("2", "x", "ctrl+u", *"/", "tab"), ["enter write", "tab complete", "esc leave"]),
    "MessagePrompt": (("2", "enter", "m"), ["enter send", "tab next", "right complete", "esc leave"]),
    "StepPrompt": (
        ("2", "slash", *"status:failed", "enter", "enter", "a"),
        ["enter rerun", "right complete", "esc leave"],
    ),
    "Outcomes": (("2", "space", "space", "p", "R"), ["esc enter close"]),
    "Help": (("question_mark",), ["/ find", "esc close"]),
    "Help, searched": (("question_mark", "slash", "q", "enter"), ["n next", "N last", "esc leave the search"]),
    "CommandLine": (("colon",), ["enter run", "tab complete", "up down history", "esc leave"]),
}
LINES = {
    "the filter": (("slash",), ["enter filter", "tab complete", "esc leave"]),
    "a search in a task": (("2", "enter", "slash"), ["enter find", "esc leave"]),
    "a search in the help": (("question_mark", "slash"), ["enter find", "esc leave"]),
}


@pytest.mark.parametrize("name", [*DIALOGS, *LINES])
async def test_a_dialog_or_line_names_its_keys(name: str, server: MockServer, clock: FrozenClock) -> None:
    keys, words = {**DIALOGS, **LINES}[name]

    async with staged(server, clock) as stage:
        await stage.press(*keys)
        await stage.until(lambda: all(word in stage.text() for word in words))
        if name in {"the filter", "a search in a task", "CommandLine"}:
            assert "^p palette" not in stage.lines()[-1]


@pytest.mark.parametrize("name", [*DIALOGS, *LINES])
async def test_8_a_narrow_screen_has_room_for_all_keys_of_a_dialog_or_line(
    name: str, server: MockServer, clock: FrozenClock
) -> None:
    keys, words = {**DIALOGS, **LINES}[name]

    async with staged(server, clock, size=(60, 20)) as stage:
        await stage.press(*keys)
        await stage.until(lambda: any(all(word in line for word in words[-2:]) for line in stage.lines()))


def test_every_dialog_is_looked_at_here() -> None:
    dialogs = {
        found.__name__
        for package in (treadle_tui.screens, treadle_tui.widgets)
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        for found in vars(importlib.import_module(module.name)).values()
        if inspect.isclass(found) and issubclass(found, ModalScreen) and found is not ModalScreen
    }

    assert dialogs == {name.split(",")[0] for name in DIALOGS}


@pytest.mark.parametrize(
    ("status", "named"),
    [
        ("pending", {"cancel", "pause", "edit", "send"}),
        ("running", {"cancel", "pause", "send"}),
        ("paused", {"cancel", "resume", "edit", "send"}),
        ("completed", {"resume", "again", "edit"}),
        ("cancelled", {"resume", "again", "edit"}),
        ("failed", {"resume", "again", "edit"}),
    ],
)
async def test_6_the_last_line_names_the_verbs_that_mean_something_for_the_task(
    status: str, named: set[str], server: MockServer, clock: FrozenClock
) -> None:
    row = task(1, status=status)
    server.tasks = {row["id"]: row}

    async with staged(server, clock) as stage:
        await stage.press("2")
        assert verbs(stage) == named - {"send", "again"}
        await stage.press("enter")
        assert verbs(stage) == named


async def test_6_the_verbs_are_those_of_what_is_highlighted_now_or_marked(
    server: MockServer, clock: FrozenClock
) -> None:
    ended, waiting = task(1, status="completed"), task(2)
    server.tasks = {row["id"]: row for row in (ended, waiting)}

    async with staged(server, clock) as stage:
        await stage.press("2")
        assert verbs(stage) == {"resume", "edit"}
        await stage.press("down")
        assert verbs(stage) == {"cancel", "pause", "edit"}
        await stage.press("space", "up")
        assert verbs(stage) == {"cancel", "pause", "edit"}, "the marked one is meant"

        await stage.press("escape", "enter")
        assert "cancel" not in verbs(stage)
        ended["status"] = "pending"
        ended["version"] += 1
        server.push_topic("task")
        await stage.settle()
        assert "cancel" in verbs(stage)


async def test_what_means_a_queue_is_named_where_one_is_highlighted_that_it_can_be_done_to(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        assert f"> {ROTATE}" in stage.text()
        assert named(stage) == {"open", "pause", "sort", "copy"}
        await stage.press("p")
        assert named(stage) == {"open", "resume", "sort", "copy"}
        await stage.press("g")
        assert "> all queues" in stage.text()
        assert named(stage) == {"open", "sort"}


async def test_where_there_is_no_queue_no_key_is_named_that_means_one(clock: FrozenClock) -> None:
    async with staged(MockServer(clock), clock) as stage:
        assert named(stage) == {"open", "sort"}
        await stage.press("2")
        assert named(stage) == {"sort", "freeze"}


async def test_1_a_tombstone_is_opened_and_neither_marked_nor_copied(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await lose_highlighted(stage, server)

        assert named(stage) == {"open", "sort", "freeze"}


@pytest.mark.parametrize(
    ("happens", "screen", "row", "words"),
    [
        (targets_are_held, "4", "cam-5", {"open", "copy"}),
        (targets_are_held, "4", "cam-1", {"open", "cancel", "pause", "copy"}),
        (targets_are_held, "4", "cam-2", {"open", "cancel", "resume", "copy"}),
        (schedules_tick, "5", "lab:sync", {"open", "pause", "run", "copy"}),
        (schedules_tick, "5", "‖ paused", {"open", "resume", "run", "copy"}),
        (tasks_have_failed, "7", "app/rotate.py", {"open", "cancel", "resume", "resolve", "copy"}),
        (tasks_have_failed, "7", BILLING, {"open", "copy"}),
        (limits_are_full, "8", "@global/openai", {"open", "copy"}),
        (limits_are_full, "8", "lab/gpu", {"copy"}),
    ],
)
async def test_6_the_verbs_are_those_that_do_anything_to_the_highlighted_row(
    happens: Callable[[MockServer], None],
    screen: str,
    row: str,
    words: set[str],
    server: MockServer,
    clock: FrozenClock,
) -> None:
    happens(server)
    async with staged(server, clock, size=(160, 40)) as stage:
        await stage.press(screen)
        while row not in stage.highlighted():
            before = stage.highlighted()
            await stage.press("down")
            assert stage.highlighted() != before, f"no row says {row}:\n{stage.text()}"

        assert named(stage) == words


def named(stage: Stage) -> set[str]:
    words = {"open", "mark", "run", "resolve", "sort", "freeze", "copy", "cancel", "pause", "resume", "edit", "send"}
    return words & set(stage.lines()[-1].split())


def verbs(stage: Stage) -> set[str]:
    return {"cancel", "pause", "resume", "again", "edit", "send"} & set(stage.lines()[-1].split())

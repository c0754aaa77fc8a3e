"""The `:` line: every action by its name, with what it is about behind it, and errors that say what to mend."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_tui.core.actions import ACTIONS
from treadle_tui.core.commands import CommandError, History, complete, read_command

from .mock import FrozenClock, MockServer
from .scene import BILLING, ROTATE
from .stage import Stage, staged


def no_choices(*_: object) -> list[str]:
    return []


@pytest.mark.parametrize(
    ("line", "name", "argument"),
    [
        (":pause queue @global:tasks:billing", "pause-queue", "@global:tasks:billing"),
        ("pause-queue x", "pause-queue", "x"),
        ("filter status:failed  some text", "filter", "status:failed  some text"),
        (": sort age ", "sort", "age"),
        ("theme light", "theme", "light"),
        ("q", "quit", ""),
        ("hel", "help", ""),
    ],
)
def test_a_line_is_an_action_and_what_stands_behind_it(line: str, name: str, argument: str) -> None:
    command = read_command(line)

    assert (command.action.name, command.argument) == (name, argument)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "type a command"),
        ("flter x", 'there is no command "flter"; do you mean "filter"?'),
        ("zzz", "? shows all of them"),
        ("quit now", 'quit takes nothing behind it: leave "now" out'),
        ("page-", "begins page-down and page-up: write more of it"),
    ],
)
def test_a_line_that_means_nothing_says_what_to_write_instead(line: str, says: str) -> None:
    with pytest.raises(CommandError) as caught:
        read_command(line)

    assert says in str(caught.value)


@given(st.text(max_size=40))
def test_any_line_is_a_command_or_an_error_with_words(line: str) -> None:
    try:
        said = read_command(line).action.help
    except CommandError as error:
        said = str(error)

    assert len(said) > 10


def test_names_complete_by_their_beginning_then_by_any_part() -> None:
    lines = [found.line for found in complete("pause", ACTIONS, no_choices)]

    assert lines[0] == "pause"
    assert "pause-queue " in lines
    assert "resume-queue " in [found.line for found in complete("queue", ACTIONS, no_choices)]


def test_what_stands_behind_a_name_completes_too() -> None:
    asked: list[tuple[str, str]] = []

    def choices(takes: str, part: str) -> list[str]:
        asked.append((takes, part))
        return ["light"]

    assert [found.line for found in complete("theme li", ACTIONS, choices)] == ["theme light"]
    assert [found.line for found in complete("pause queue b", ACTIONS, choices)] == ["pause queue light"]
    assert asked == [("theme", "li"), ("queue", "b")]


def test_the_history_goes_back_and_forth_and_keeps_what_was_begun() -> None:
    history = History(most=2)
    for line in ("one", "two", "three", "two"):
        history.add(line)

    assert [history.older("draft"), history.older("two"), history.older("three")] == ["two", "three", "three"]
    assert [history.newer("three"), history.newer("two"), history.newer("draft")] == ["two", "draft", "draft"]


async def typed(stage: Stage, line: str) -> None:
    await stage.press("colon")
    for char in line:
        await stage.pilot.press({" ": "space", ":": "colon", "@": "at", "-": "minus"}.get(char, char))
    await stage.press("enter")


async def test_a_queue_is_paused_by_its_name_from_anywhere(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("3")
        await typed(stage, f"pause queue {BILLING}")

        assert stage.asked("job")[-1] == {"op": "job", "job": BILLING, "paused": True}
        assert f"paused {BILLING}" in stage.text()


async def test_a_filter_is_typed_as_a_command_and_shows_the_tasks(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await typed(stage, "filter status:failed")

        window = stage.asked("watch")[-1]["window"]
        assert window["filter"]["status"] == ["failed"]
        assert "status:failed" in stage.text()


async def test_a_queues_tasks_are_gone_to_by_a_part_of_its_name(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await typed(stage, "tasks billing")

        assert stage.asked("watch")[-1]["window"]["filter"]["job"] == BILLING


async def test_a_task_is_opened_by_what_the_list_shows_of_its_id(server: MockServer, clock: FrozenClock) -> None:
    key = list(server.tasks)[3]

    async with staged(server, clock) as stage:
        await typed(stage, f"open {key[-8:]}")

        assert stage.asked("watch")[-1]["task_id"] == key


async def test_a_task_that_is_not_here_is_looked_for_by_the_beginning_of_its_id(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await typed(stage, "open ffff")

        assert stage.asked("watch")[-1]["window"]["filter"] == {"id": "ffff"}


async def test_a_command_that_cannot_be_carried_out_comes_back_with_the_reason(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        for line, says in (
            ("filter status:flying", 'there is no status "flying"'),
            ("theme purple", "it is one of dark, light"),
            ("pause queue nope", 'there is no queue "nope"'),
            ("context prod", "the configuration file has none"),
            ("mark", "mark works in the tasks' pane (2)"),
            ("seek 10", "steers a recording"),
        ):
            await typed(stage, line)
            assert says in stage.text(), line
            assert f": {line}" in stage.text()
            await stage.press("escape")

    assert stage.asked("job") == []


async def test_read_only_refuses_commands_that_write_and_offers_none(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, read_only=True) as stage:
        await typed(stage, f"pause queue {ROTATE}")
        assert "pause-queue is off: this dashboard is read-only" in stage.text()
        await stage.press("escape", "colon", *"pause")

        assert "pause-queue" not in stage.text()
        assert stage.asked("job") == []


async def test_tab_completes_and_the_completions_stand_over_the_line(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("colon", *"the", "tab")
        assert ": theme " in stage.text()
        assert "colourblind" in stage.text()
        await stage.press(*"li", "tab", "enter")

        assert stage.app.theme == "treadle-light"
        assert "theme light" in stage.text()


async def test_the_arrows_bring_back_what_was_typed(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await typed(stage, "theme mono")
        await stage.press("colon", "up")

        assert ": theme mono" in stage.text()
        await stage.press("escape")
        assert ": theme mono" not in stage.text()


async def test_the_dashboard_goes_on_beneath_the_command_line(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("colon")
        job = next(iter(server.jobs.values()))
        job["counts"] = {**job["counts"], "pending": 4711}
        server.push_topic("counts")
        await stage.settle()

        assert "4,711" in stage.text() or "4711" in stage.text()

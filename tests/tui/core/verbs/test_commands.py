"""What a `:` line means, how it is completed, and the history of what was typed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_tui.core.verbs.actions import ACTIONS
from treadle_tui.core.verbs.commands import CommandError, History, complete, read_command


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
        ("flter x", 'unknown command "flter": did you mean "filter"?'),
        ("zzz", "? shows all of them"),
        ("quit now", 'quit takes no argument: remove "now"'),
        ("page-", "could be page-down or page-up: type more of it"),
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

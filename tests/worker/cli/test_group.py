"""A worker-only install: commands that other distributions bring say what to install."""

import pytest
from click.testing import CliRunner

from treadle.cli import group

ELSEWHERE = {name: known.distribution for name, known in group.KNOWN.items()}


@pytest.fixture
def _only_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "plugins", dict)


@pytest.mark.usefixtures("_only_the_worker")
@pytest.mark.parametrize(("command", "package"), ELSEWHERE.items())
def test_a_command_of_another_distribution_says_what_to_install(command: str, package: str) -> None:
    ended = CliRunner().invoke(group.treadle, [command])

    assert (ended.exit_code, f"pip install {package}\n" in ended.output) == (2, True), ended.output


@pytest.mark.usefixtures("_only_the_worker")
def test_a_shell_that_completes_is_not_told_what_to_install() -> None:
    assert _completed("bench", "--") == ["--version", "--help"]


def test_a_shell_completes_the_commands_of_a_group_that_lists_without_one() -> None:
    assert _completed("limits", "") == ["delete", "list", "set", "show"]
    assert _completed("limits", "--json", "--r") == ["--room"]
    assert _completed("limits", "--") == ["--help", "--room", "--limit", "--json"]


def test_a_shell_is_told_of_each_command_what_help_says_and_none_is_loaded_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = _told("wor", shell="zsh")
    assert told == ["plain", "worker", group.OWN["worker"].summary, "plain", "workers", group.OWN["workers"].summary]

    monkeypatch.setattr(group.LazyGroup, "get_command", None)
    assert _completed("--v") == ["--version"]
    assert {*group.OWN, *group.plugins()} == {*_completed("")}


def _completed(*words: str) -> list[str]:
    """Return what the shell is told that may stand for the last of the words."""
    return [line.partition(",")[2] for line in _told(*words, shell="bash")]


def _told(*words: str, shell: str) -> list[str]:
    line = {"COMP_WORDS": " ".join(["treadle", *words]), "COMP_CWORD": str(len(words))}
    told = CliRunner().invoke(
        group.treadle, prog_name="treadle", env={**line, "_TREADLE_COMPLETE": f"{shell}_complete"}
    )
    assert told.exception is None or isinstance(told.exception, SystemExit), told.output
    return told.output.splitlines()


@pytest.mark.usefixtures("_only_the_worker")
def test_help_lists_only_what_is_there() -> None:
    listed = CliRunner().invoke(group.treadle, ["--help"]).output

    assert "\n  worker " in listed
    assert "\n  server " not in listed


def test_what_is_said_to_be_elsewhere_is_what_the_other_distributions_bring() -> None:
    theirs = {name: entry.dist.name for name, entry in group.plugins().items() if entry.dist is not None}

    assert theirs == ELSEWHERE

"""A worker-only install: commands that other distributions bring say what to install."""

import pytest
from click.testing import CliRunner

from treadle.cli import group
from treadle.cli.absent import ELSEWHERE


@pytest.fixture
def _only_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "plugins", dict)


@pytest.mark.usefixtures("_only_the_worker")
@pytest.mark.parametrize(("command", "package"), ELSEWHERE.items())
def test_a_command_of_another_distribution_says_what_to_install(command: str, package: str) -> None:
    ended = CliRunner().invoke(group.treadle, [command])

    assert (ended.exit_code, f"pip install {package}\n" in ended.output) == (2, True), ended.output


@pytest.mark.usefixtures("_only_the_worker")
def test_help_lists_only_what_is_there() -> None:
    listed = CliRunner().invoke(group.treadle, ["--help"]).output

    assert "\n  worker " in listed
    assert "\n  server " not in listed


def test_what_is_said_to_be_elsewhere_is_what_the_other_distributions_bring() -> None:
    theirs = {name: entry.dist.name for name, entry in group.plugins().items() if entry.dist is not None}

    assert theirs == ELSEWHERE

"""Groups of commands: what help and a shell that completes say of each."""

import click
import pytest
from click.testing import CliRunner

from treadle.cli.group import treadle

GROUPS = ["limits", "schedules", "token", "webhooks"]


@pytest.mark.parametrize("name", GROUPS)
def test_help_tells_of_each_command_in_a_whole_sentence(name: str) -> None:
    said = CliRunner().invoke(treadle, [name, "--help"], env={"COLUMNS": "60"}).output

    group = treadle.get_command(click.Context(treadle), name)
    assert isinstance(group, click.Group)
    commands = said.partition("Commands:\n")[2]
    for command in group.commands.values():
        assert command.get_short_help_str(1000) in " ".join(commands.split())
    assert "..." not in commands


def test_a_shell_is_told_the_whole_sentence() -> None:
    line = {"COMP_WORDS": "treadle limits li", "COMP_CWORD": "2", "_TREADLE_COMPLETE": "zsh_complete"}

    told = CliRunner().invoke(treadle, prog_name="treadle", env=line).output

    said = "List the limits that can be seen from a room, with their use and how many tasks wait."
    assert told == f"plain\nlist\n{said}\n"

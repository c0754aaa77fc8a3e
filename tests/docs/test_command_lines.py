"""Every command line that the pages show is one that the program takes."""

import re
import shlex
from pathlib import Path

import click
import pytest

from tests.docs.blocks import Block, blocks
from treadle.cli.group import treadle


def command_lines(block: Block) -> list[list[str]]:
    """Return the words behind `treadle` of each line that calls it, be it with variables before it or through uv."""
    lines = block.code.replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in re.split(r"\s(?:&&|\|\||;|\|)\s", line)]
    return [shlex.split(part, comments=True)[1:] for part in map(called, parts) if part]


def called(part: str) -> str:
    """Return a command from its `treadle` on, or nothing when it is another's."""
    found = re.match(r"\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:uv run )?(?:/\S+/bin/)?(treadle\s.*)", part)
    return found[1] if found else ""


SHOWN = [(block, words) for block in blocks("sh", "console", "") for words in command_lines(block)]


@pytest.mark.parametrize(
    ("block", "words"), SHOWN, ids=[f"{block.name} {' '.join(words)[:60]}" for block, words in SHOWN]
)
def test_every_command_line_is_parsed(
    block: Block, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "DIR").mkdir()
    monkeypatch.chdir(tmp_path)

    command: click.Command = treadle
    context = treadle.make_context("treadle", list(words))
    while isinstance(command, click.Group):
        given = [*context._protected_args, *context.args]
        if not given and command.invoke_without_command:
            break
        name, found, rest = command.resolve_command(context, given)
        assert found is not None
        command = found
        context = command.make_context(name, rest, parent=context)


def test_there_are_command_lines_to_be_parsed() -> None:
    assert len(SHOWN) > 40

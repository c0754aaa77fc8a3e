"""Every command line that the pages show is one that the program takes."""

import re
import shlex
from pathlib import Path

import click
import pytest

from tests.docs.blocks import FENCE, PAGES, ROOT, Block, blocks
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


def named(page: Path) -> set[str]:
    """Return the commands that a page's sentences name, with what they are given there; … stands for anything."""
    spans = re.findall(r"`([^`]+)`", FENCE.sub("", page.read_text()))
    return {command for span in spans if "…" not in span and (command := called(span))}


SHOWN = [(block.name, words) for block in blocks("sh", "console", "") for words in command_lines(block)]
NAMED = [(page.relative_to(ROOT).as_posix(), command) for page in PAGES for command in sorted(named(page))]


@pytest.mark.parametrize(("place", "words"), SHOWN, ids=[f"{place} {' '.join(words)[:60]}" for place, words in SHOWN])
def test_every_command_line_is_parsed(place: str, words: list[str], a_directory: None) -> None:
    parse(words)


@pytest.mark.parametrize(("place", "command"), NAMED, ids=[f"{place} {command[:60]}" for place, command in NAMED])
def test_every_command_that_a_sentence_names_is_parsed(place: str, command: str, a_directory: None) -> None:
    """A sentence may name a command without what it is to be given."""
    try:
        parse(shlex.split(command)[1:])
    except (click.exceptions.Exit, click.exceptions.NoArgsIsHelpError, click.MissingParameter):
        return


def test_there_are_command_lines_to_be_parsed() -> None:
    assert len(SHOWN) > 40
    assert len(NAMED) > 40


AN_ID = "0199c2d4"
"""What `ID`, or a variable of the shell, stands for."""


def parse(words: list[str]) -> None:
    """Read a command line as the program does, and run nothing. Raises what click says is wrong with it."""
    command: click.Command = treadle
    context = treadle.make_context(
        "treadle", [AN_ID if word == "ID" or word.startswith("$") else word for word in words]
    )
    while isinstance(command, click.Group):
        given = [*context._protected_args, *context.args]
        if not given and command.invoke_without_command:
            break
        name, found, rest = command.resolve_command(context, given)
        assert found is not None
        command = found
        context = command.make_context(name, rest, parent=context)


@pytest.fixture
def a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand where there is what command lines call DIR."""
    (tmp_path / "DIR").mkdir()
    monkeypatch.chdir(tmp_path)

"""N4: nothing that users sent reaches a terminal raw."""

import ast
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.worker.cli.pseudo import read_terminal
from treadle.cli.group import LazyGroup
from treadle.errors import TreadleError
from treadle.wire.shown import clean, clean_json, clean_lines

SOURCES = tuple((Path(__file__).parents[3] / "packages").glob("*/src/**/*.py"))

PRINTERS = {"click.echo", "click.secho", "click.style", "print", "sys.stdout.write", "sys.stderr.write"}

HOSTILE = (
    "\x1b]0;title\x07",  # OSC: the terminal's title
    "\x1b[2J\x1b[31m",  # CSI
    "\x9b2J\x9d0;c1\x9c",  # the same by C1
    "\u202egnp.exe\u2066\u200f",  # bidi
    "\x00\x08\x7f\r",  # NUL, backspace, DEL
    "\u200b\ufeff\u2028\U000e0041\ud800",  # zero width, a line's end, a tag, half a pair
)
OBEYED = {char for text in HOSTILE for char in text if not char.isprintable()}

PRINT = """
import sys
from treadle.cli.show import print_json, print_table, say, say_result, styled
value = "".join(__import__("ast").literal_eval(sys.argv[1]))
say(value, f"x {value}")
say(styled(value))
say(value, err=True)
say_result(value)
print_table(("a", "b"), [(value, value)], empty="none")
print_table((value,), [], empty=value)
print_json({value: [value]})
"""


def on_a_terminal(code: str, *arguments: str) -> str:
    parent, child = pty.openpty()
    try:
        process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=child, stderr=child)
        os.close(child)
        seen = b""
        while piece := read_terminal(parent):
            seen += piece
        assert process.wait(30) == 0, seen
    finally:
        os.close(parent)
    return seen.decode()


def test_all_that_the_command_prints_with_is_clean_on_a_terminal() -> None:
    shown = on_a_terminal(PRINT, ascii(HOSTILE))

    # The styles of our own, and the line ends of the terminal.
    rest = shown.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\r\n", "\n")
    assert "\\x1b]0;title\\x07" in rest
    assert [char for char in rest if char in OBEYED] == []


def test_whatever_is_printed_goes_through_a_cleaner() -> None:
    """A new command can't forget it: what prints raw stands here, with the reason."""
    texts = {
        "/".join(path.parts[-2:]): text
        for path in SOURCES
        if any(way in (text := path.read_text()) for way in PRINTERS)
    }

    raw = {name for name, text in texts.items() if any(_is_raw(node) for node in ast.walk(ast.parse(text)))}

    assert raw == RAW.keys()


RAW = {
    "cli/notices.py": "lines of JSON, which their formatter has cleaned",
    "cli/show.py": "the cleaners' own home",
    "treadle_tui/guard.py": "a signal's name",
    "loads/process.py": "JSON for the benchmark's parent process",
}


def _is_raw(node: ast.AST) -> bool:
    """Return whether something is printed that is neither a constant nor the outcome of a cleaner."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) not in PRINTERS:
        return False
    return any(not isinstance(what, ast.Constant) and not _is_cleaned(what) for what in node.args)


def _is_cleaned(what: ast.expr) -> bool:
    return isinstance(what, ast.Call) and ast.unparse(what.func) in {"clean", "clean_lines", "clean_json"}


def test_json_stays_exact_and_is_fit_for_a_terminal() -> None:
    value = {"".join(HOSTILE[:-1]): ["".join(HOSTILE), "plain ü 漢 👩‍👩‍👧"]}

    text = clean_json(json.dumps(value, ensure_ascii=False, indent=2))

    assert json.loads(text) == value
    assert not OBEYED & set(text)
    assert "👩‍👩‍👧" in text


@pytest.mark.parametrize("kind", [TreadleError, click.UsageError, click.ClickException])
def test_an_errors_own_words_are_clean_too(kind: type[Exception]) -> None:
    group = LazyGroup("treadle")

    @click.command()
    def fails() -> None:
        raise kind("".join(HOSTILE))

    group.get_command = lambda *_: fails  # type: ignore[method-assign]
    result = CliRunner().invoke(group, ["fails"])

    assert result.exit_code != 0
    assert not OBEYED & set(result.output), result.output


@pytest.mark.parametrize("text", ["👩‍👩‍👧", "👍🏽", "می‌خواهم", "क्‍ष", "ශ්‍රී", "❤️‍🔥"])
def test_the_joiners_of_emoji_persian_and_indic_words_stay(text: str) -> None:
    assert clean(text) == clean_lines(text) == text


def test_a_joiner_that_joins_nothing_is_spelt_out() -> None:
    assert clean("pay\u200dpal \u200d") == "pay\\u200dpal \\u200d"


def test_further_lines_of_a_text_are_indented_so_that_none_passes_for_ours() -> None:
    sent = "boom\nstatus     completed\n\n\tdeep\r\n"

    assert clean_lines(sent) == "boom\n  status     completed\n\n          deep\n"
    assert clean_lines(sent, indent="") == "boom\nstatus     completed\n\n        deep\n"

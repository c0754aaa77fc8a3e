"""What a command says besides its output: warnings, progress, and the error that ends it.

A command that writes a JSON log writes them as lines of that log, because its readers expect every line to be an
object.
"""

import logging
import os
from contextlib import suppress
from types import TracebackType

import click

from treadle.variables import PREFIX
from treadle.wire.log_lines import formatter
from treadle.wire.shown import clean_lines

LOGGING = frozenset({"migrate", "outbox", "server", "worker"})
"""The commands that write a log."""

_json: logging.Formatter | None = None


def begin(command: str | None) -> None:
    """Have notices from now on be those of this command."""
    global _json  # noqa: PLW0603 - a process has one standard error
    _json = None
    # The settings themselves may be what is invalid; as in them, upper and lower case are the same.
    styles = [style for name, style in os.environ.items() if name.upper() == f"{PREFIX}LOG_FORMAT"]
    if command in LOGGING and "json" in styles:
        try:
            _json = formatter("json")
        except ModuleNotFoundError:
            return  # structlog is not installed, which an error will report


def in_log(
    level: int,
    sentence: str,
    error: tuple[type[BaseException], BaseException, TracebackType | None] | None = None,
) -> bool:
    """Write a line of the log, with the traceback of an error; return False if there is no JSON log."""
    if _json is None:
        return False
    record = logging.LogRecord("treadle", level, "", 0, sentence, None, error)
    _say(_json.format(record))
    return True


def warn(sentence: str) -> None:
    """Print a warning."""
    if not in_log(logging.WARNING, sentence):
        _say(clean_lines(f"Warning: {sentence}"))


def _say(line: str) -> None:
    """Write a line if possible: a server must start, and keep running, even if the disk of its log is full."""
    with suppress(OSError):
        click.echo(line, err=True)

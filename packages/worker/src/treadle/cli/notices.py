"""What a command says beside its output: warnings, what it does, and the error that ends it.

One that writes a log says them as lines of that, where it is JSON: what reads them expects an object of each line.
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
    """Have what is said from now on be of this command."""
    global _json  # noqa: PLW0603 - a process has one standard error
    _json = None
    # The settings themselves may be what is wrong; as for them, upper and lower case are the same.
    styles = [style for name, style in os.environ.items() if name.upper() == f"{PREFIX}LOG_FORMAT"]
    if command in LOGGING and "json" in styles:
        try:
            _json = formatter("json")
        except ModuleNotFoundError:
            return  # structlog is not installed, of which an error will tell


def in_log(
    level: int,
    sentence: str,
    error: tuple[type[BaseException], BaseException, TracebackType | None] | None = None,
) -> bool:
    """Write a line of the log, with the traceback of an error; false where there is none that is JSON."""
    if _json is None:
        return False
    record = logging.LogRecord("treadle", level, "", 0, sentence, None, error)
    _say(_json.format(record))
    return True


def warn(sentence: str) -> None:
    """Say that something is not as it should be."""
    if not in_log(logging.WARNING, sentence):
        _say(clean_lines(f"Warning: {sentence}"))


def _say(line: str) -> None:
    """Write a line where it can be written: a server whose log's disk is full is to come up, as it goes on with one."""
    with suppress(OSError):
        click.echo(line, err=True)

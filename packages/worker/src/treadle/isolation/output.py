"""What a task's code logs and prints: it goes where it went, and to the log of its task as well."""

import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, cast

from treadle.values import clean
from treadle.wire.runs import Level

OURS = ("treadle", "websockets", "httpx", "httpcore", "asyncio")
"""Loggers that tell of the worker, and of how it speaks with its server; a module that submits is no task."""

_LONGEST_LINE = 100_000
"""Characters of a printed line after which it is taken for whole."""


class Output:
    """Where the output of one run goes; `send` may be called from any thread."""

    __slots__ = ("_rest", "_send", "run")

    def __init__(self, run: tuple[str, int], send: Callable[[str, Level], None]) -> None:
        self.run = run
        """The task's id, and the number of its run."""
        self._send = send
        self._rest = ""

    def print(self, text: str) -> None:
        """Take what is printed, and send it line by line."""
        *lines, self._rest = f"{self._rest}{text}".split("\n")
        for line in lines:
            self.say(line, "info")
        if len(self._rest) > _LONGEST_LINE:
            self.end()

    def say(self, message: str, level: Level) -> None:
        """Send one line, cleaned and without the blanks at its end; one that has nothing else is not sent."""
        if message.strip():
            self._send(clean(message.rstrip()), level)

    def end(self) -> None:
        """Send what was printed without an end of line."""
        rest, self._rest = self._rest, ""
        self.say(rest, "info")


current: ContextVar[Output | None] = ContextVar("treadle_output", default=None)
"""Whose output it is: threads and tasks that the code starts with its context have it too."""


class Lines(logging.Handler):
    """Takes what is logged within a run."""

    _plain = logging.Formatter("%(message)s")

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record; where nobody else writes it, what matters still goes to standard error."""
        output = current.get()
        if output is not None and record.name.partition(".")[0] not in OURS:
            try:
                output.say(self._plain.format(record), _level_of(record.levelno))
            except Exception:  # noqa: BLE001 - as every handler: what can't be logged harms nobody
                self.handleError(record)
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and not self._is_written(record.name):
            last.handle(record)

    def _is_written(self, name: str) -> bool:
        """Return whether another handler has the record: this one's being there silences the last resort."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def _level_of(number: int) -> Level:
    for least, level in ((50, "critical"), (40, "error"), (30, "warning"), (20, "info")):
        if number >= least:
            return cast("Level", level)
    return "debug"


class Shared:
    """Standard error, or output: a run that closes it closes nothing, for all that runs in this process writes there.

    Each line of the worker's log would raise a ValueError, and end it.
    """

    def __init__(self, stream: TextIO | io.TextIOBase) -> None:
        self._stream = stream

    def close(self) -> None:
        """Leave it open."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Doubled(Shared):
    """Standard output, of which the run that prints gets a copy."""

    def write(self, text: str) -> int:
        """Write the text, and tell the run."""
        written = self._stream.write(text)
        if (output := current.get()) is not None:
            output.print(text)
        return written

    def writelines(self, lines: list[str]) -> None:
        """Write each."""
        for line in lines:
            self.write(line)


def line_by_line() -> None:
    """Have what this process prints written with each line, also where it goes into a file or pipe.

    Python keeps back up to 8 KB of it there: they came late, and were lost with a process that was killed.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


class Nowhere(io.TextIOBase):
    """Stands for a stream that the process was begun without: Python has None there, and loses what is printed."""

    def write(self, text: str) -> int:
        """Lose it."""
        return len(text)


_users = 0


def begin(output: Output) -> None:
    """Have what runs in this context send its output there, within `captured`."""
    current.set(output)
    root = logging.getLogger()
    if _users and _lines not in root.handlers:
        # Code has configured logging by a root of its own, as `django.setup()` may.
        root.addHandler(_lines)


@contextmanager
def captured(*, wanted: bool = True) -> Iterator[None]:
    """Have the output of runs taken during the block, if it is `wanted`; blocks may overlap."""
    global _users  # noqa: PLW0603 - standard output and the root logger are the process's own
    if not wanted:
        yield
        return
    if not _users:
        logging.getLogger().addHandler(_lines)
        sys.stdout = cast("io.TextIOWrapper", Doubled(sys.stdout or Nowhere()))
        sys.stderr = cast("io.TextIOWrapper", Shared(sys.stderr or Nowhere()))
    _users += 1
    try:
        yield
    finally:
        _users -= 1
        if not _users:
            logging.getLogger().removeHandler(_lines)
            if isinstance(sys.stdout, Doubled):
                sys.stdout = sys.stdout._stream  # noqa: SLF001 - its own
            if isinstance(sys.stderr, Shared):
                sys.stderr = sys.stderr._stream  # noqa: SLF001 - its own


_lines = Lines()

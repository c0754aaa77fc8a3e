"""The output of a task's code, logged or printed, which goes to its usual place and to the task's log."""

import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, cast

from treadle.forks import process_number
from treadle.values import clean
from treadle.wire.runs import Level

log = logging.getLogger("treadle.worker")

OURS = ("treadle", "websockets", "httpx", "httpcore", "asyncio")
"""Loggers of the worker and of its connection to the server; what they log in a run is not the task's output."""

_LONGEST_LINE = 100_000
"""Characters after which a printed line is sent as it is."""


class Output:
    """The output of one run; `send` may be called from any thread.

    It isn't called in a copy of the process, as a `multiprocessing.Pool` forks it: the way to the worker is only the
    original's, and a copy that is ended while it writes would break it.
    """

    __slots__ = ("_process", "_rest", "_send", "run")

    def __init__(self, run: tuple[str, int], send: Callable[[str, Level], None]) -> None:
        self.run = run
        """The task's id, and the number of its run."""
        self._send = send
        self._process = process_number()
        self._rest = ""

    def print(self, text: str) -> None:
        """Take printed text, and send it line by line."""
        *lines, self._rest = f"{self._rest}{text}".split("\n")
        for line in lines:
            self.say(line, "info")
        if len(self._rest) > _LONGEST_LINE:
            self.end()

    def say(self, message: str, level: Level) -> None:
        """Send one line, escaped where needed and without trailing blanks; a blank line is not sent."""
        if message.strip() and process_number() == self._process:
            self._send(clean(message.rstrip()), level)

    def end(self) -> None:
        """Send what was printed without a line break at its end."""
        rest, self._rest = self._rest, ""
        self.say(rest, "info")


current: ContextVar[Output | None] = ContextVar("treadle_output", default=None)
"""The output of the current run, also in threads and tasks that the code starts with its context."""


class Lines(logging.Handler):
    """A logging handler for what is logged within a run."""

    _plain = logging.Formatter("%(message)s")

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record; if no other handler writes it, warnings and errors still go to standard error."""
        output = current.get()
        if output is not None and record.name.partition(".")[0] not in OURS:
            try:
                output.say(self._plain.format(record), _level_of(record.levelno))
            except Exception:  # noqa: BLE001 - as in every handler, a record that can't be logged does no harm
                self.handleError(record)
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and not self._is_written(record.name):
            last.handle(record)

    def _is_written(self, name: str) -> bool:
        """Return whether another handler gets the record; this handler's presence silences `logging.lastResort`."""
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
    """Standard error, or output, that a run can't close or break on, because everything in this process writes there.

    Otherwise each line of the worker's log would raise a ValueError, which would end the worker; and on a full disk, or
    in a pipe that nobody reads, each run that prints would fail.
    """

    def __init__(self, stream: TextIO | io.TextIOBase) -> None:
        self._stream = stream
        self._is_told = False

    def close(self) -> None:
        """Leave it open."""

    def write(self, text: str) -> int:
        """Write the text, if possible."""
        self._if_possible(lambda: self._stream.write(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what is buffered, if possible."""
        self._if_possible(self._stream.flush)

    def _if_possible(self, call: Callable[[], object]) -> None:
        try:
            call()
        except OSError as error:
            if not self._is_told:
                self._is_told = True
                log.warning("what tasks print can't be written (%s): they run without it", error.strerror)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Doubled(Shared):
    """Standard output that also sends what a run prints to that run."""

    def write(self, text: str) -> int:
        """Write the text, and pass it to the run."""
        written = super().write(text)
        if (output := current.get()) is not None:
            output.print(text)
        return written


def line_by_line() -> None:
    """Flush what this process prints after each line, also into a file or a pipe.

    There Python buffers up to 8 KB, which came late, and was lost if the process was killed.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


class Nowhere(io.TextIOBase):
    """Stands for a stream that the process was started without: Python has None there, and drops what is printed."""

    def write(self, text: str) -> int:
        """Drop the text."""
        return len(text)


_users = 0


def begin(output: Output) -> None:
    """Send the output of what runs in this context to `output`, within `captured`."""
    current.set(output)
    root = logging.getLogger()
    if _users and _lines not in root.handlers:
        # Code has replaced the root logger's handlers, as `django.setup()` may.
        root.addHandler(_lines)


@contextmanager
def captured(*, wanted: bool = True) -> Iterator[None]:
    """Capture the output of runs during the block, if `wanted`; blocks may overlap."""
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
                sys.stdout = sys.stdout._stream  # noqa: SLF001 - of our own class
            if isinstance(sys.stderr, Shared):
                sys.stderr = sys.stderr._stream  # noqa: SLF001 - of our own class


_lines = Lines()

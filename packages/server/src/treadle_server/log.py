"""The server's log: one line for each event; repeated lines are counted.

What fails once often fails a thousand times a second, in many places at once. The first of equal lines is written, and
then one line a minute that counts them; a statement with ever different lines is limited to `MOST_DIFFERENT` a minute.

Modules use `logging`, as libraries do, and bind a line's fields with `treadle.wire.log_lines`.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field

from treadle.wire.log_lines import Style, formatter, note

WINDOW = 60.0
"""Seconds from the first of equal lines, or from their last count, to their next count."""

MOST_DIFFERENT = 100
"""The most lines of one statement that are written in a window; the others are only counted."""

_Statement = tuple[str, int]
_Wording = tuple[str, int, str, str]


@dataclass(slots=True)
class _Window:
    """What one statement has logged recently."""

    began_at: float
    written: dict[_Wording, logging.LogRecord] = field(default_factory=dict)
    repeated: Counter[_Wording] = field(default_factory=Counter)
    last: logging.LogRecord | None = None
    """The last line that was not written."""
    dropped: int = 0


class Folding(logging.Handler):
    """Passes lines on to another handler, and folds equal ones."""

    def __init__(
        self,
        target: logging.Handler,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], None] | None = None,
    ) -> None:
        """`later` calls a function after some seconds, in any thread; by default in a new one."""
        super().__init__()
        self._target = target
        self._monotonic = monotonic
        self._later = later or _later
        self._windows: dict[_Statement, _Window] = {}
        self._is_timed = False
        self._alone = threading.RLock()

    def emit(self, record: logging.LogRecord) -> None:
        """Write or count the line, with the fields that are bound where it was logged."""
        note(record)
        with self._alone:
            self._take(record)

    def _take(self, record: logging.LogRecord) -> None:
        self._write_due_counts()
        window = self._windows.setdefault((record.pathname, record.lineno), _Window(self._monotonic()))
        error = record.exc_info[1] if record.exc_info else None
        line = (record.name, record.levelno, record.getMessage(), repr(error))
        if line in window.written:
            window.repeated[line] += 1
        elif len(window.written) >= MOST_DIFFERENT:
            window.dropped += 1
            window.last = record
        else:
            window.written[line] = record
            self._target.handle(record)
            return
        self._count_later()

    def _count_later(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self._later(WINDOW, self._on_window_end)

    def _on_window_end(self) -> None:
        with self._alone:
            self._is_timed = False
            self._write_due_counts()
            if any(window.repeated or window.dropped for window in self._windows.values()):
                self._count_later()

    def _write_due_counts(self, *, is_over: bool = False) -> None:
        now = self._monotonic()
        for place, window in list(self._windows.items()):
            if is_over or now - window.began_at >= WINDOW:
                self._windows[place] = self._write_counts(window, now)
                if not self._windows[place].written:
                    del self._windows[place]

    def _write_counts(self, window: _Window, now: float) -> _Window:
        """Write the counts of a window, and return the next one, in which its repeated lines are still counted."""
        passed = max(1, round(now - window.began_at))
        following = _Window(now)
        for line, count in window.repeated.items():
            record = following.written[line] = window.written[line]
            times = "once more" if count == 1 else f"{count:,} times more"
            self._write(record, f"{record.getMessage().rstrip()} ({times} within {passed} s)")
        if window.last is not None:
            more = f"(and {window.dropped:,} more lines like it within {passed} s)"
            self._write(window.last, f"{window.last.getMessage().rstrip()} {more}")
        return following

    def _write(self, record: logging.LogRecord, message: str) -> None:
        counted = copy(record)
        counted.msg, counted.args = message, None
        counted.exc_info = counted.exc_text = counted.stack_info = None
        counted.created = time.time()
        counted.msecs = counted.created % 1 * 1000
        self._target.handle(counted)

    def flush(self) -> None:
        """Write what was counted until now, because the process ends."""
        with self._alone:
            self._write_due_counts(is_over=True)
        self._target.flush()


def _later(seconds: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


def begin(style: Style = "console") -> None:
    """Write the log of this process to standard error from now on."""
    target = logging.StreamHandler()
    target.setFormatter(formatter(style))
    logging.basicConfig(level=logging.INFO, handlers=[Folding(target)])
    for chatty in ("alembic", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_not_logged_elsewhere)
    logging.captureWarnings(True)  # Python's warnings become log lines too


def _is_not_logged_elsewhere(record: logging.LogRecord) -> bool:
    """Return whether the line is not one of uvicorn's for which there is a better one.

    The command says why a start failed, and `serving/refuses.py` from where an invalid request came.
    """
    return record.msg not in {"Application startup failed. Exiting.", "Invalid HTTP request received."}


@contextmanager
def told(style: Style = "console") -> Iterator[None]:
    """Write the server's log lines to standard error during the block, as the progress of a long command."""
    target = logging.StreamHandler()
    target.setFormatter(formatter(style))
    ours = logging.getLogger(__package__)
    before = ours.level
    ours.addHandler(target)
    ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        ours.setLevel(before)
        ours.removeHandler(target)

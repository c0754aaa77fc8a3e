"""The server's log: one line for an event, and of lines that come again and again how often they came.

What fails once often fails a thousand times a second, at many places at once. The first of equal lines is written, and
then each minute one that counts them; a statement that writes ever different lines is cut to `MOST_DIFFERENT` a minute.

Modules write by `logging`, as the libraries do. What is bound (`request`, `session`, `task`, `run`, `worker`) goes with
each line.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal

import orjson

from treadle.wire.shown import CleanFormatter, clean_json

_bound: ContextVar[Mapping[str, Any]] = ContextVar("bound", default=MappingProxyType({}))


@contextmanager
def bound(**names: Any) -> Iterator[None]:
    """Have every line that is written within the block say what it is of, a task and its run for instance."""
    token = _bound.set({**_bound.get(), **names})
    try:
        yield
    finally:
        _bound.reset(token)


FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

WINDOW = 60.0
"""Seconds from the first of equal lines, or from their last count, to the next count."""

MOST_DIFFERENT = 100
"""Lines of one statement that are written in a window; the others are counted."""

_Place = tuple[str, int]
_Line = tuple[str, int, str, str]


@dataclass(slots=True)
class _Window:
    """What one statement wrote lately."""

    began_at: float
    written: dict[_Line, logging.LogRecord] = field(default_factory=dict)
    repeated: Counter[_Line] = field(default_factory=Counter)
    last: logging.LogRecord | None = None
    """The last line that was not written."""
    dropped: int = 0


class Folding(logging.Handler):
    """Passes lines on to another handler, equal ones folded."""

    def __init__(
        self,
        target: logging.Handler,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], None] | None = None,
    ) -> None:
        """`later` calls a function after some seconds, from whatever thread; by default, one of its own."""
        super().__init__()
        self._target = target
        self._monotonic = monotonic
        self._later = later or _later
        self._windows: dict[_Place, _Window] = {}
        self._is_timed = False
        self._alone = threading.RLock()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, or count it; with what is bound where it was written."""
        record.bound = _bound.get()
        with self._alone:
            self._take(record)

    def _take(self, record: logging.LogRecord) -> None:
        self._tell_what_is_due()
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
        self._tell_later()

    def _tell_later(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self._later(WINDOW, self._time_is_up)

    def _time_is_up(self) -> None:
        with self._alone:
            self._is_timed = False
            self._tell_what_is_due()
            if any(window.repeated or window.dropped for window in self._windows.values()):
                self._tell_later()

    def _tell_what_is_due(self, *, is_over: bool = False) -> None:
        now = self._monotonic()
        for place, window in list(self._windows.items()):
            if is_over or now - window.began_at >= WINDOW:
                self._windows[place] = self._told(window, now)
                if not self._windows[place].written:
                    del self._windows[place]

    def _told(self, window: _Window, now: float) -> _Window:
        """Write how often what came, and return the next window: what came again is still counted in it."""
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
        """Write what was counted until now: the process ends."""
        with self._alone:
            self._tell_what_is_due(is_over=True)
        self._target.flush()


def _later(seconds: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


class Console(CleanFormatter):
    """Lines to read; what is bound stands behind the message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the first line."""
        line = super().formatMessage(record)
        bound = " ".join(f"{name}={value}" for name, value in _bound_to(record).items())
        return f"{line} [{bound}]" if bound else line


def json_formatter() -> logging.Formatter:
    """Return what writes each line as an object, `event` its message, with what is bound and the traceback in it."""
    # Its import takes 0.2 s, which a server that writes lines to read has no use for.
    import structlog

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[_add_facts],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_dumped),
        ],
    )


def _add_facts(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    record: logging.LogRecord = event["_record"]
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    facts = {"timestamp": at, "level": record.levelname.lower(), "logger": record.name}
    return {**facts, **event, **_bound_to(record)}


def _bound_to(record: logging.LogRecord) -> Mapping[str, Any]:
    bound: Mapping[str, Any] = getattr(record, "bound", {})
    return bound


def _dumped(event: MutableMapping[str, Any], **_: object) -> str:
    return clean_json(orjson.dumps(event, default=str).decode())


def begin(style: Literal["console", "json"] = "console") -> None:
    """Write the log of this process to its standard error, from now on."""
    target = logging.StreamHandler()
    target.setFormatter(Console(FORMAT) if style == "console" else json_formatter())
    logging.basicConfig(level=logging.INFO, handlers=[Folding(target)])
    for chatty in ("alembic", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)

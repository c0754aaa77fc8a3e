"""The server's log stays short whatever fails, and tells how often (N3)."""

import io
import json
import logging
from collections.abc import Callable
from datetime import datetime

import pytest

from treadle.wire.log_lines import Console, bound, json_formatter
from treadle_server.log import MOST_DIFFERENT, WINDOW, Folding


class Written:
    """A folded log on a clock of its own, and what was written of it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self._stream = io.StringIO()
        target = logging.StreamHandler(self._stream)
        target.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        self.handler = Folding(target, monotonic=lambda: self.now, later=self._later)
        self.log = logging.Logger("tested")  # noqa: LOG001 - nobody else's
        self.log.addHandler(self.handler)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append((self.now + seconds, call))

    def advance(self, seconds: float) -> None:
        """Let time pass, and be called what was to be called meanwhile."""
        until = self.now + seconds
        while self.due and min(self.due)[0] <= until:
            first = min(self.due)
            self.due.remove(first)
            self.now = first[0]
            first[1]()
        self.now = until

    @property
    def lines(self) -> list[str]:
        return self._stream.getvalue().splitlines()


@pytest.fixture
def written() -> Written:
    return Written()


def test_the_first_of_equal_lines_is_written_and_then_a_count_each_minute_n3(written: Written) -> None:
    for _ in range(3 * 60 * 100):
        written.log.warning("service %s failed: %s", "leader", "the connection is closed")
        written.advance(0.01)
    written.advance(2 * WINDOW)

    failed = "WARNING service leader failed: the connection is closed"
    assert written.lines[0] == failed
    assert len(written.lines) in {4, 5}
    assert all(line.startswith(f"{failed} (") and line.endswith("s)") for line in written.lines[1:])
    counts = [int(line.partition("(")[2].split()[0].replace(",", "")) for line in written.lines[1:]]
    assert sum(counts) == 3 * 60 * 100 - 1
    assert written.due == []


def test_a_line_that_comes_once_more_after_a_quiet_minute_is_written_as_the_first_n3(written: Written) -> None:
    for _ in range(3):
        written.log.info("worker %s is lost", "a")
        written.advance(WINDOW + 1)

    assert written.lines == ["INFO worker a is lost"] * 3


def test_lines_that_differ_are_all_written_up_to_a_bound_a_minute_n3(written: Written) -> None:
    for i in range(5_000):
        written.log.info("worker %s is lost", i)
    written.advance(WINDOW)

    assert written.lines[:3] == ["INFO worker 0 is lost", "INFO worker 1 is lost", "INFO worker 2 is lost"]
    assert written.lines[MOST_DIFFERENT:] == [
        f"INFO worker 4999 is lost (and {5_000 - MOST_DIFFERENT:,} more lines like it within 60 s)"
    ]


def test_of_equal_errors_one_traceback_is_written_and_of_another_its_own_n3(written: Written) -> None:
    for text in ["a", "b"] * 50:
        try:
            int(text)
        except ValueError:
            written.log.exception("it failed")

    assert sum("Traceback" in line for line in written.lines) == 2
    assert sum(line == "ERROR it failed" for line in written.lines) == 2


def test_what_was_counted_is_written_when_the_process_ends_n3(written: Written) -> None:
    for _ in range(10):
        written.log.error("the disk is full")

    written.handler.flush()

    assert written.lines == ["ERROR the disk is full", "ERROR the disk is full (9 times more within 1 s)"]


def test_a_second_equal_line_is_told_as_one_n3(written: Written) -> None:
    for _ in range(2):
        written.log.error("the disk is full")
    written.advance(WINDOW)

    assert written.lines[1] == "ERROR the disk is full (once more within 60 s)"


def formatted(formatter: logging.Formatter) -> tuple[logging.Logger, io.StringIO]:
    """Return a logger of its own whose folded lines are written so, and what they are written to."""
    stream = io.StringIO()
    target = logging.StreamHandler(stream)
    target.setFormatter(formatter)
    logger = logging.Logger("tested")  # noqa: LOG001 - nobody else's
    logger.addHandler(Folding(target, later=lambda *_: None))
    return logger, stream


def test_what_is_bound_stands_behind_the_message() -> None:
    logger, stream = formatted(Console("%(levelname)s %(message)s"))

    with bound(request=7):
        with bound(task="abc", run=2):
            logger.warning("it was refused")
        logger.warning("and so was this")
    logger.warning("at last")

    assert stream.getvalue().splitlines() == [
        "WARNING it was refused [request=7 task=abc run=2]",
        "WARNING and so was this [request=7]",
        "WARNING at last",
    ]


def test_json_has_a_line_for_each_event_with_what_is_bound_and_the_traceback() -> None:
    logger, stream = formatted(json_formatter())

    with bound(task="abc\u202e"):
        try:
            {}["nothing there"]
        except KeyError:
            logger.exception("%s failed\n", "it")
    logger.info("at last")

    first, second = map(json.loads, stream.getvalue().splitlines())
    assert "\u202e" not in stream.getvalue()
    assert {name: first[name] for name in ("level", "logger", "event", "task")} == {
        "level": "error", "logger": "tested", "event": "it failed\n", "task": "abc\u202e",
    }  # fmt: skip
    assert first["exception"].endswith("KeyError: 'nothing there'")
    assert datetime.fromisoformat(first["timestamp"]).tzinfo is not None
    assert second.keys() == {"timestamp", "level", "logger", "event"}


def test_a_count_keeps_what_the_first_line_was_bound_to() -> None:
    logger, stream = formatted(Console("%(message)s"))
    with bound(worker="w"):
        for _ in range(2):
            logger.warning("slow")

    logger.handlers[0].flush()

    assert stream.getvalue().splitlines()[1] == "slow (once more within 1 s) [worker=w]"

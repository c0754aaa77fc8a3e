"""How a task's code writes down what it does: lines appended to a file of its own, each whole or not at all."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

from tests.lines import append


def _unknown() -> float | None:
    return None


class Journal:
    """One run's marks, in the file that `TREADLE_TEST_JOURNAL` names, by the worker that `TREADLE_TEST_NAME` names.

    `left` says how many seconds of the run's lease its worker knows of.
    """

    def __init__(
        self, task: str, run: int, n: int, target: str | None = None, left: Callable[[], float | None] = _unknown
    ) -> None:
        self._who = task, run
        self._rest = os.environ["TREADLE_TEST_NAME"], n, target
        self._left = left

    def mark(self, what: str, note: Any = None) -> None:
        """Append a line, in one call: what was written outlives this process, and no two writers mix theirs."""
        at, left = time.monotonic(), self._left()
        until = None if left is None else at + left
        line = json.dumps([what, *self._who, at, *self._rest, until, note])
        append(os.environ["TREADLE_TEST_JOURNAL"], line)

"""How a task's code writes down what it does: lines appended to a file of its own, each whole or not at all."""

import json
import os
import time


class Journal:
    """One run's marks, in the file that `TREADLE_TEST_JOURNAL` names, by the worker that `TREADLE_TEST_NAME` names."""

    def __init__(self, task: str, run: int, n: int, target: str | None = None) -> None:
        self._who = task, run
        self._rest = os.environ["TREADLE_TEST_NAME"], n, target

    def mark(self, what: str) -> None:
        """Append a line, in one call: what was written outlives this process, and no two writers mix theirs."""
        line = json.dumps([what, *self._who, time.monotonic(), *self._rest]) + "\n"
        path = os.environ["TREADLE_TEST_JOURNAL"]
        descriptor = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

"""`treadle worker --reload`: runs the worker in a process of its own, which is replaced when code changes."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from treadle.cli import notices
from treadle.cli.show import say

if TYPE_CHECKING:
    from watchfiles.main import FileChange

ENDING = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in signal.Signals.__members__]
"""The signals that end a worker; a terminal sends all but SIGTERM to every process that was started from it."""


class Reloader:
    """Runs `treadle worker` with the given arguments, again after each change of a Python file in the given places."""

    def __init__(self, words: Sequence[str], places: Sequence[Path]) -> None:
        # Without the current directory in the path, until the worker itself adds it.
        self._command = [sys.executable, "-P", "-m", "treadle", "worker", *words]
        self._places = places
        self._worker: subprocess.Popen[bytes] | None = None
        self._replaced: subprocess.Popen[bytes] | None = None
        self._is_over = threading.Event()

    def run(self) -> int:
        """Run until SIGINT, SIGTERM or SIGHUP, or until the worker ends normally; return its exit code.

        Raises `click.ClickException` if the places can't be watched.
        """
        from watchfiles import PythonFilter, watch

        for told in ENDING:
            if signal.getsignal(told) is not signal.SIG_IGN:
                signal.signal(told, self._end)
        worker = self._begin()
        try:
            for changes in watch(*self._places, watch_filter=PythonFilter(), stop_event=self._is_over):
                _tell(f"{_changed(changes)}: the worker finishes its running tasks and restarts")
                self._replaced = worker
                worker.terminate()
                worker.wait()
                if self._is_over.is_set():
                    break
                worker = self._begin()
        except OSError as error:
            self._is_over.set()
            worker.terminate()
            worker.wait()
            places = ", ".join(str(place) for place in self._places)
            raise click.ClickException(
                f"{places} can't be watched for changes ({error}): name a smaller directory with --reload-dir"
            ) from None
        code = worker.wait()
        return code if code >= 0 else 128 - code

    def _begin(self) -> subprocess.Popen[bytes]:
        self._worker = worker = subprocess.Popen(self._command)  # noqa: S603 - this command, with its own arguments
        if self._is_over.is_set():
            # The signal came while there was no worker.
            worker.terminate()
        threading.Thread(target=self._attend, args=(worker,), name="treadle-reload", daemon=True).start()
        return worker

    def _attend(self, worker: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a worker; if it was not replaced, it failed, or was asked to end."""
        code = worker.wait()
        if worker is self._replaced or self._is_over.is_set():
            return
        if code == 0:
            # It was asked to drain, or had nothing to run for `--max-idle`.
            self._is_over.set()
        else:
            _tell(f"The worker has ended with exit code {code}: it restarts when code changes")

    def _end(self, told: int, frame: FrameType | None) -> None:
        # A signal from a key or a closing terminal reaches the worker too, and a second one would end its grace. If it
        # was sent to this process alone, it can be sent again.
        is_in_terminal = any(os.isatty(stream) for stream in range(3))  # its input may come from elsewhere
        is_everybodys = told != signal.SIGTERM and is_in_terminal and not self._is_over.is_set()
        self._is_over.set()
        if self._worker is not None and not is_everybodys:
            self._worker.terminate()


def _changed(changes: "set[FileChange]") -> str:
    first, *others = sorted({os.path.relpath(path) for _, path in changes})
    return f"{first} and {len(others):,} more have changed" if others else f"{first} has changed"


def _tell(sentence: str) -> None:
    if not notices.in_log(logging.INFO, sentence):
        say(sentence, err=True)

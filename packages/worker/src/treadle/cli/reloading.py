"""`treadle worker --reload`: the worker is a process of its own, and another one takes its place when code changes."""

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
"""What tells a worker to end; a terminal sends all but SIGTERM to every process that was begun from it."""


class Reloader:
    """Runs `treadle worker` with the given words, anew after each change of a Python file beneath the given places."""

    def __init__(self, words: Sequence[str], places: Sequence[Path]) -> None:
        # Without what lies in the current directory, until the worker itself looks there.
        self._command = [sys.executable, "-P", "-m", "treadle", "worker", *words]
        self._places = places
        self._worker: subprocess.Popen[bytes] | None = None
        self._replaced: subprocess.Popen[bytes] | None = None
        self._is_over = threading.Event()

    def run(self) -> int:
        """Run until SIGINT, SIGTERM or SIGHUP, or until the worker ends well by itself; return its exit code.

        Raises `click.ClickException` where the places can't be watched.
        """
        from watchfiles import PythonFilter, watch

        for told in ENDING:
            if signal.getsignal(told) is not signal.SIG_IGN:
                signal.signal(told, self._end)
        worker = self._begin()
        try:
            for changes in watch(*self._places, watch_filter=PythonFilter(), stop_event=self._is_over):
                _tell(f"{_changed(changes)}: the worker ends what it runs, and starts anew")
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
                f"{places} can't be watched for changes ({error}): name a smaller directory, by --reload-dir"
            ) from None
        code = worker.wait()
        return code if code >= 0 else 128 - code

    def _begin(self) -> subprocess.Popen[bytes]:
        self._worker = worker = subprocess.Popen(self._command)  # noqa: S603 - this command, with its own words
        if self._is_over.is_set():
            # Told while there was none.
            worker.terminate()
        threading.Thread(target=self._attend, args=(worker,), name="treadle-reload", daemon=True).start()
        return worker

    def _attend(self, worker: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a worker; one that comes by itself is an error of its code, or was asked for."""
        code = worker.wait()
        if worker is self._replaced or self._is_over.is_set():
            return
        if code == 0:
            # It was asked to drain, or had nothing to run for as long as it may.
            self._is_over.set()
        else:
            _tell(f"The worker has ended with exit code {code}: another one starts when code changes")

    def _end(self, told: int, frame: FrameType | None) -> None:
        # What a key or the end of a terminal has sent, the worker has got too: a second one would end its grace. Who
        # sends it to this process alone sends it again.
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

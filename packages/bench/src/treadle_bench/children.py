"""The processes that the demo and the bench start, which never outlive them."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self

COMMAND = "treadle_bench.die_with_parent"
"""The module that runs a `treadle` command which ends with its starter."""

STOP_SECONDS = 4.0
"""How long a child may take to stop when asked to."""

REAP_SECONDS = 2.0
"""How long a killed process may take to disappear."""

_ENDING = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in signal.Signals.__members__]
"""The signals that end the starter; Windows has no SIGHUP."""

_LOOK_SECONDS = 0.01
"""How often to check whether a process has ended."""


class Child:
    """A `treadle` command in a process of its own, whose output goes to a log."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path | None) -> None:
        self.name = name
        self.process = process
        self._log = log

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def output(self) -> str:
        """Return what it has written so far."""
        return self._log.read_text(errors="replace") if self._log else ""

    @property
    def served_url(self) -> str | None:
        """The URL that a server has reported; None until it has."""
        found = re.search(r"Treadle serves (\S+)\n", self.output())
        return found[1] if found else None

    @property
    def has_own_group(self) -> bool:
        """Whether it leads a process group of its own, instead of sharing its starter's."""
        return self._log is not None

    def stop(self) -> None:
        """Ask the process to stop, and kill it with all that it has started if it takes too long."""
        if self.is_running:
            self.process.terminate()
            wait(self.process, STOP_SECONDS)
        if self.has_own_group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        elif self.is_running:
            self.process.kill()
        reap(self.process)


class Children:
    """Starts `treadle` commands, and stops them at the end of its block, in reverse order.

    Each ends with its starter (`treadle_bench.die_with_parent`), so a starter killed with -9 leaves none behind. Those
    with a log have a session of their own: a Ctrl-C in the terminal only reaches the starter, which then stops them in
    order.
    """

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory = directory
        self.environment = environment
        self._running: list[Child] = []
        self._files = ExitStack()

    def __enter__(self) -> Self:
        self._read_end, self._write_end = os.pipe()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # From here on, another Ctrl-C must not interrupt the stopping, nor the second SIGHUP of a closed terminal.
        before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
        try:
            for child in reversed(self._running):
                child.stop()
        finally:
            os.close(self._write_end)
            os.close(self._read_end)
            self._files.close()
            for number, handler in before.items():
                signal.signal(number, handler)

    def start(self, name: str, *arguments: str, module: str = COMMAND) -> Child:
        """Start a command in the background; its output goes to `NAME.log`.

        `module` is run by `python -m` with the pipe's file descriptor and the arguments; by default it runs `treadle`.
        """
        log = self._directory / f"{name}.log"
        output = self._files.enter_context(log.open("wb"))
        process = subprocess.Popen(  # noqa: S603 - our own command
            self._command(module, *arguments),
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=self.environment,
            pass_fds=(self._read_end,),
            start_new_session=True,
        )
        return self._add(Child(name, process, log))

    def open(self, name: str, *arguments: str) -> Child:
        """Start a command that has the terminal to itself."""
        process = subprocess.Popen(  # noqa: S603 - our own command
            self._command(COMMAND, *arguments), env=self.environment, pass_fds=(self._read_end,)
        )
        return self._add(Child(name, process, None))

    def _command(self, module: str, *arguments: str) -> list[str]:
        # -P: a file in the current directory, such as token.py, must not shadow the standard library's.
        return [sys.executable, "-P", "-m", module, str(self._read_end), *arguments]

    def _add(self, child: Child) -> Child:
        self._running.append(child)
        return child

    def first_ended(self) -> Child | None:
        """Return a background child that has ended, which none should do by itself."""
        return next((child for child in self._running if child.has_own_group and not child.is_running), None)


def reap(process: subprocess.Popen[Any]) -> None:
    """Wait for the end of a killed process, for `REAP_SECONDS` at most; after that it is left to the system."""
    wait(process, REAP_SECONDS)


def wait(process: subprocess.Popen[Any], seconds: float) -> None:
    """Wait for a process to end, for this many seconds at most.

    A Ctrl-C that comes while `Popen.poll` takes its lock leaves the lock held for ever. `Popen.wait` without a timeout
    would then wait for it for ever, on Python 3.15 even with one.
    """
    end = monotonic() + seconds
    while process.poll() is None and monotonic() < end:
        sleep(_LOOK_SECONDS)


def without_treadle() -> dict[str, str]:
    """Return the environment without settings for another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TREADLE_")}

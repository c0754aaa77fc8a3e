"""The processes that the demo and the bench start, and their end, which comes whatever happens to those."""

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
"""How long a child may take to stop when it is asked to."""

REAP_SECONDS = 2.0
"""How long one that was killed may take to be gone."""

_LOOK_SECONDS = 0.01
"""How often it is looked whether a process has ended."""


class Child:
    """A `treadle` command in a process of its own, that writes to a log."""

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
        """What a server says that it serves; None as long as it has not said so."""
        found = re.search(r"Treadle serves (\S+)\n", self.output())
        return found[1] if found else None

    @property
    def has_own_group(self) -> bool:
        """Whether it leads a group of processes, rather than being one of its starter's."""
        return self._log is not None

    def stop(self) -> None:
        """Ask the process to stop, and kill it with all that it has started when it takes too long."""
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
    """Starts `treadle` commands, and stops them at the end of its block, last ones first.

    Each ends with its starter (`treadle_bench.die_with_parent`): one killed with -9 leaves none behind. Those with a
    log stand in a session of their own: a Ctrl-C in the terminal is for the starter, which then stops them in order.
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
        # From here on a further Ctrl-C must not interrupt the stopping.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for child in reversed(self._running):
                child.stop()
        finally:
            os.close(self._write_end)
            os.close(self._read_end)
            self._files.close()
            signal.signal(signal.SIGINT, before)

    def start(self, name: str, *arguments: str, module: str = COMMAND) -> Child:
        """Start a command in the background; its output goes to `NAME.log`.

        `module` is what `python -m` runs with the pipe's file descriptor and the arguments, unless it is a command.
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
        """Start a command that has the terminal for itself."""
        process = subprocess.Popen(  # noqa: S603 - our own command
            self._command(COMMAND, *arguments), env=self.environment, pass_fds=(self._read_end,)
        )
        return self._add(Child(name, process, None))

    def _command(self, module: str, *arguments: str) -> list[str]:
        # -P: a file of the current directory, say a token.py, must not stand in for the standard library's.
        return [sys.executable, "-P", "-m", module, str(self._read_end), *arguments]

    def _add(self, child: Child) -> Child:
        self._running.append(child)
        return child

    def first_ended(self) -> Child | None:
        """Return a background child that has ended, which none should by itself."""
        return next((child for child in self._running if child.has_own_group and not child.is_running), None)


def reap(process: subprocess.Popen[Any]) -> None:
    """Wait for the end of a process that was killed, `REAP_SECONDS` at most: the system forgets it with its starter."""
    wait(process, REAP_SECONDS)


def wait(process: subprocess.Popen[Any], seconds: float) -> None:
    """Wait for a process to end, for so many seconds at most.

    A Ctrl-C that comes while `Popen.poll` takes its lock leaves that locked for ever. Whoever then calls `Popen.wait`
    without a limit, and on Python 3.15 with one too, waits for it for ever.
    """
    end = monotonic() + seconds
    while process.poll() is None and monotonic() < end:
        sleep(_LOOK_SECONDS)


def without_treadle() -> dict[str, str]:
    """Return the environment without what is set there for another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TREADLE_")}

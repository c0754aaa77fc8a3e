"""Real servers as processes of their own, to be killed without warning."""

import asyncio
import contextlib
import itertools
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.clients import PLAIN

START_LIMIT = 90.0
"""Seconds that a server may take to be ready."""


_ports = itertools.count(random.SystemRandom().randrange(1_000))


def free_port() -> int:
    """A port that nobody has, and that nobody is given before it is used.

    What the system gives to others comes from a range above; each process of a run has a thousand of its own.
    """
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 20
    for number in itertools.islice(_ports, 1_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = 10_000 + 1_000 * process + number % 1_000
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("every port is taken")


_OF_TASKS = re.compile(r"^.* ERROR treadle\.worker: task \S+, run \d+, of .* failed .*\n(?:  .*\n)+", re.MULTILINE)
"""What a worker logs of a task that raised, with its traceback."""


def traceback_in(log: Path) -> str:
    """Return the first traceback of a log that is no task's own, with what stands around it; empty where is none."""
    text = _OF_TASKS.sub("", log.read_text(errors="replace"))
    at = text.find("Traceback (most recent call last)")
    return "" if at < 0 else text[max(0, at - 500) : at + 3000]


class Process:
    """A command in a process of its own, whose output goes to a file; it can be killed and started again."""

    def __init__(self, arguments: list[str], log: Path, environment: dict[str, str]) -> None:
        self._command = [sys.executable, "-c", "from treadle.cli import main; main()", *arguments]
        self.environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self.log = log

    def run_from(self, code: str) -> None:
        """Have it begin with other code than the command's own."""
        self._command[2] = code

    def run_by(self, python: str) -> None:
        """Have it run by another interpreter than this one, in whose environment is another Treadle."""
        self._command[0] = python

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env={**os.environ, **self.environment}
            )

    @property
    def pid(self) -> int:
        """The number of the process that runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    @property
    def has_died(self) -> bool:
        """Whether it has ended though nobody ended it."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        """Kill it the way a power cut does: no signal handler, no goodbye."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process = None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for its end and return its exit code."""
        assert self._process is not None
        while (code := self._process.poll()) is None:
            await asyncio.sleep(0.01)
        self._process = None
        return code

    def stop(self) -> None:
        """Ask it to end, as an operator would; one that does not is killed, and that is an error."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._process = None


class ServerProcess(Process):
    """`treadle server` on a port that stays the same over restarts."""

    def __init__(self, directory: Path, database_url: str, **environment: str) -> None:
        self.directory = directory
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        arguments = ["server", "--port", str(self.port), "--data-dir", str(directory), "--database-url", database_url]
        super().__init__(arguments, directory / "serving.server.log", environment)

    @property
    def token(self) -> str:
        return (self.directory / "token").read_text().strip()

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def socket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/session"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        super().start()
        limit = time.monotonic() + START_LIMIT
        while not self._is_ready():
            if self.has_ended or time.monotonic() > limit:
                raise RuntimeError(f"the server did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5, verify=PLAIN).status_code == 200
        except httpx.TransportError:
            return False


class WorkerProcess(Process):
    """`treadle worker MODULE`."""

    def __init__(
        self,
        server: ServerProcess,
        module: str,
        *options: str,
        concurrency: int = 20,
        name: str = "worker",
        **environment: str,
    ) -> None:
        reached = {"TREADLE_URL": server.url, "TREADLE_TOKEN": server.token}
        arguments = ["worker", module, "--concurrency", str(concurrency), "--name", name, *options]
        super().__init__(arguments, server.directory / f"{name}.log", reached | environment)


@contextlib.contextmanager
def running_server(directory: Path, database_url: str, **environment: str) -> Iterator[ServerProcess]:
    server = ServerProcess(directory, database_url, **environment)
    server.start()
    with stopped_at_the_end(server):
        yield server


@contextlib.contextmanager
def stopped_at_the_end(process: Process) -> Iterator[None]:
    """Leave no process behind, whatever the test did."""
    try:
        yield
    finally:
        process.stop()

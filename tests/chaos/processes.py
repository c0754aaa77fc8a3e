"""Real servers as processes of their own, to be killed without warning."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

START_LIMIT = 30.0
"""Seconds that a server may take to be ready."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ServerProcess:
    """`treadle server` on a port that stays the same over restarts."""

    def __init__(self, directory: Path, database_url: str, **environment: str) -> None:
        self.directory = directory
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._database_url = database_url
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self.log = directory / "server.log"

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
        command = [sys.executable, "-c", "from treadle.cli import main; main()", "server"]
        command += ["--port", str(self.port), "--data-dir", str(self.directory), "--database-url", self._database_url]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **self._environment})
        limit = time.monotonic() + START_LIMIT
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"the server did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """Kill it the way a power cut does: no signal handler, no goodbye."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise
            self._process = None


@contextlib.contextmanager
def running_server(directory: Path, database_url: str, **environment: str) -> Iterator[ServerProcess]:
    server = ServerProcess(directory, database_url, **environment)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class WorkerProcess:
    """`treadle worker MODULE`, to be killed and started again."""

    def __init__(self, server: ServerProcess, module: str, *, concurrency: int = 20, **environment: str) -> None:
        self._command = [sys.executable, "-c", "from treadle.cli import main; main()", "worker", module]
        self._command += ["--concurrency", str(concurrency)]
        self._environment = {"TREADLE_URL": server.url, "TREADLE_TOKEN": server.token} | environment
        self._process: subprocess.Popen[bytes] | None = None
        self.log = server.directory / "worker.log"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env={**os.environ, **self._environment}
            )

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise
            self._process = None

"""A server, its workers and its submitters, each a process of its own, for as long as one measurement takes."""

import http.client
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from treadle.bench import tasks
from treadle.bench.databases import Databases
from treadle.bench.figures import NONE, BenchFailed
from treadle.bench.machine import cpu_seconds_of
from treadle.bench.role import MODULE
from treadle.demo.children import Child, Children

START_SECONDS = 60.0
"""How long a process may take to be ready."""

LOOK_SECONDS = 0.005
"""How often something that is about to happen is looked for."""

MEASURE_SECONDS = 3600.0
"""How long one load may take before it is given up."""


class Memory(NamedTuple):
    """A process's memory in MB: all that is resident, and what of it is no page of a mapped file."""

    resident: float
    own: float


class Stage:
    """A running server, and the processes that are started around it."""

    def __init__(self, children: Children, directory: Path, server: Child, started_at: float) -> None:
        self._children = children
        self._directory = directory
        self._server = server
        self.url: str = _address(server)
        self._connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        self.token: str = (directory / "token").read_text().strip()
        until(self._is_ready, server, "the server is not ready")
        self.start_seconds: float = time.monotonic() - started_at
        children.environment |= {"TREADLE_URL": self.url, "TREADLE_TOKEN": self.token}

    def close(self) -> None:
        """Close the connection that looks at the server."""
        self._connection.close()

    def start_worker(self, *, jobs: int = 1, concurrency: int = 100) -> Child:
        """Start `treadle worker` for the first `jobs` queues of no-ops, and for the other tasks."""
        self._children.environment |= {tasks.DIRECTORY: str(self._directory), tasks.JOBS: str(jobs)}
        return self._children.start(
            self._name("worker"), "worker", tasks.__name__, "--concurrency", str(concurrency), "--drain-grace", "2"
        )

    def start_crew(self, workers: int, *, concurrency: int) -> Child:
        """Start so many workers in one process, for the first queue and the measuring of latency."""
        self._children.environment |= {tasks.DIRECTORY: str(self._directory)}
        return self._start_role("crew", {"workers": workers, "concurrency": concurrency})

    def play(self, role: str, **arguments: Any) -> Any:
        """Have a role played to its end in a process of its own, and return its answer. Raises `BenchFailed`."""
        return _played(self._start_role(role, arguments), role)

    def cpu_seconds(self, *more: Child) -> float:
        """Return the processor time that the server, and other processes, have taken until now."""
        return sum(cpu_seconds_of(child.process.pid) for child in (self._server, *more))

    @contextmanager
    def playing(self, role: str, **arguments: Any) -> Iterator[Callable[[], Any]]:
        """Have a role played during the block, from when it is ready; it gives how to stop it and get its answer."""
        child = self._start_role(role, arguments)
        until(lambda: bool(child.output()), child, f"{role} is not ready")

        def stop() -> Any:
            child.stop()
            return _answer(child, role)

        try:
            yield stop
        finally:
            child.stop()

    def ask(self, path: str) -> Any:
        """Return what the server answers to a GET. Raises `BenchFailed`."""
        try:
            status, body = self._get(path)
        except ConnectionError:
            # The server closes connections on which nothing was asked for a while.
            self._connection.close()
            status, body = self._get(path)
        if status != 200:
            raise BenchFailed(f"GET {path} is answered {status}: {body[:200]!r}")
        return json.loads(body)

    def counts(self) -> dict[str, int]:
        """Return how many tasks the store has in each status. Raises `BenchFailed` when one failed: none may."""
        counts: dict[str, int] = self.ask("/v1/stats")["counts"]
        if counts.get("failed"):
            raise BenchFailed(f"{counts['failed']} tasks failed, which do nothing that could fail")
        return counts

    def first_start(self) -> float:
        """Return when the first task was started by a worker, in seconds of the monotonic clock."""
        found = list(self._directory.glob("first-*[0-9]"))
        if not found:
            raise BenchFailed("no worker has noted when its first task started")
        return min(int(path.read_text()) for path in found) / 1e9

    def has_started(self) -> bool:
        """Return whether a worker has noted its first start."""
        return any(self._directory.glob("first-*[0-9]"))

    def forget_starts(self) -> None:
        """Let the next drain begin anew."""
        for path in self._directory.glob("first-*[0-9]"):
            path.unlink()

    def await_first_start(self, worker: Child) -> None:
        """Wait until a worker has started its first task."""
        until(lambda: any(self._directory.glob("first-*[0-9]")), worker, "no worker started a task")

    @property
    def server_pid(self) -> int:
        """Return the process of the server."""
        return self._server.process.pid

    def server_memory(self) -> Memory:
        """Return the server's resident memory."""
        return memory_of(self.server_pid)

    def _get(self, path: str) -> tuple[int, bytes]:
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        response = self._connection.getresponse()
        return response.status, response.read()

    def _is_ready(self) -> bool:
        return self._get("/readyz")[0] == 200

    def _start_role(self, role: str, arguments: dict[str, Any]) -> Child:
        reached = {"url": self.url, "token": self.token} | arguments
        return self._children.start(self._name(role), role, json.dumps(reached), module=MODULE)

    def _name(self, kind: str) -> str:
        return f"{kind}-{len(list(self._directory.glob(f'{kind}-*.log'))) + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a case gets: the database to measure on, the sizes, and how to open a server."""

    database: str
    databases: Databases
    scratch: Path
    scale: float = 1.0
    repeats: int = 3

    def count(self, most: int, *, least: int = 20) -> int:
        """Return how many of something to take, by the scale."""
        return max(min(least, most), round(most * self.scale))

    @contextmanager
    def server(self, **settings: str) -> Iterator[Stage]:
        """Run a server on a database of its own during the block; `settings` are environment variables."""
        with self.home() as home, open_stage(home, **settings) as stage:
            yield stage

    @contextmanager
    def home(self) -> Iterator[dict[str, str]]:
        """Give the settings of servers that share one fresh data directory and database during the block."""
        with ExitStack() as stack:
            directory = stack.enter_context(
                TemporaryDirectory(prefix="treadle-bench-", dir=self.scratch, ignore_cleanup_errors=True)
            )
            settings = {"TREADLE_DATA_DIR": directory}
            if self.database != NONE and (url := stack.enter_context(self.databases.fresh(self.database))):
                settings["TREADLE_DATABASE_URL"] = url
            yield settings


@contextmanager
def open_stage(home: dict[str, str], **settings: str) -> Iterator[Stage]:
    """Run a server with the settings given by `Run.home` during the block, and end all that was started around it."""
    directory = Path(home["TREADLE_DATA_DIR"])
    environment = without_treadle() | home | settings | {"PYTHONUNBUFFERED": "1"}
    with Children(directory, environment) as children:
        started_at = time.monotonic()
        name = f"server-{len(list(directory.glob('server-*.log'))) + 1}"
        server = children.start(name, "server", "--port", "0")
        with closing(Stage(children, directory, server, started_at)) as stage:
            yield stage


def without_treadle() -> dict[str, str]:
    """Return the environment without what is set there for another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TREADLE_")}


def until(happened: Callable[[], bool], child: Child, complaint: str) -> None:
    """Wait until something happened. Raises `BenchFailed` when the process ends before, or takes too long."""
    limit = time.monotonic() + START_SECONDS
    while not happened():
        if not child.is_running or time.monotonic() > limit:
            raise BenchFailed(f"{complaint}:\n{child.output()[-2000:]}")
        time.sleep(LOOK_SECONDS)


def memory_of(pid: int) -> Memory:
    """Return a process's resident memory, as Linux tells it. Raises `BenchFailed` elsewhere."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        raise BenchFailed(f"the memory of a process is read from /proc, which {sys.platform} has not") from None
    found = {name: int(size) * 1024 / 1e6 for name, size in re.findall(r"^(\w+):\s+(\d+) kB", status, re.MULTILINE)}
    if "VmRSS" not in found:
        raise BenchFailed(f"process {pid} has ended")
    return Memory(resident=found["VmRSS"], own=found["RssAnon"])


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that nothing is left running."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def played(children: Children, role: str, arguments: dict[str, Any]) -> Any:
    """Have a role played to its end, and return its answer. Raises `BenchFailed`."""
    return _played(children.start(role, role, json.dumps(arguments), module=MODULE), role)


def _played(child: Child, role: str) -> Any:
    limit = time.monotonic() + MEASURE_SECONDS
    while child.is_running:
        if time.monotonic() > limit:
            raise BenchFailed(f"{role} did not end within {MEASURE_SECONDS:g} s")
        time.sleep(LOOK_SECONDS)
    return _answer(child, role)


def _address(server: Child) -> str:
    pattern = re.compile(r"Treadle serves (\S+)\n")
    until(lambda: pattern.search(server.output()) is not None, server, "the server did not start")
    found = pattern.search(server.output())
    assert found is not None
    return found[1]


def _answer(child: Child, role: str) -> Any:
    lines = child.output().splitlines()
    if child.process.returncode != 0 or not lines:
        raise BenchFailed(f"{role} ended with {child.process.returncode}:\n{child.output()[-1000:]}")
    return json.loads(lines[-1])

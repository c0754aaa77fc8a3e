"""A running server with its workers and loads, each in a process of its own."""

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from treadle_bench.children import Child, Children, without_treadle
from treadle_bench.figures import BenchFailed
from treadle_bench.loads import tasks
from treadle_bench.loads.running import answer_of, finish, start, until
from treadle_bench.machine import Memory, cpu_seconds_of, descriptors_of, memory_of


class Harness:
    """A running server, and the processes that are started around it."""

    def __init__(self, children: Children, directory: Path, server: Child, started_at: float) -> None:
        self._children = children
        self._directory = directory
        self._server = server
        until(lambda: server.served_url is not None, server, "the server did not start")
        self.url: str = server.served_url or ""
        self._connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        self.token: str = (directory / "token").read_text().strip()
        until(self._is_ready, server, "the server is not ready")
        self.start_seconds: float = time.monotonic() - started_at
        children.environment |= {"TREADLE_URL": self.url, "TREADLE_TOKEN": self.token}

    def close(self) -> None:
        """Close the connection to the server."""
        self._connection.close()

    def start_worker(self, *, jobs: int = 1) -> Child:
        """Start `treadle worker` for the first `jobs` no-op queues and for the other tasks."""
        self._children.environment |= {tasks.DIRECTORY: str(self._directory), tasks.JOBS: str(jobs)}
        return self._children.start(
            _name(self._directory, "worker"), "worker", tasks.__name__, "--concurrency", "100", "--drain-grace", "2"
        )

    def start_many_workers(self, workers: int, *, concurrency: int) -> Child:
        """Start this many workers in one process, for the first queue and for measuring latency."""
        self._children.environment |= {tasks.DIRECTORY: str(self._directory)}
        return self._start("workers", {"workers": workers, "concurrency": concurrency})

    def run(self, load: str, **arguments: Any) -> Any:
        """Run a load to its end in a process of its own, and return its answer. Raises `BenchFailed`."""
        return finish(self._start(load, arguments), load)

    def run_together(self, loads: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """Run loads concurrently to their ends, and return the answer of each. Raises `BenchFailed`."""
        running = {load: self._start(load, arguments) for load, arguments in loads.items()}
        return {load: finish(child, load) for load, child in running.items()}

    def cpu_seconds(self, *more: Child) -> float:
        """Return the processor time that the server and these other processes have used so far."""
        return sum(cpu_seconds_of(child.process.pid) for child in (self._server, *more))

    @contextmanager
    def running(self, load: str, **arguments: Any) -> Iterator[Callable[[], Any]]:
        """Run a load during the block, once it is ready; yield a function that stops it and returns its answer."""
        child = self._start(load, arguments)
        until(lambda: bool(child.output()), child, f"{load} is not ready")

        def stop() -> Any:
            child.stop()
            return answer_of(child, load)

        try:
            yield stop
        finally:
            child.stop()

    def ask(self, path: str) -> Any:
        """Return the server's answer to a GET. Raises `BenchFailed`."""
        try:
            status, body = self._get(path)
        except ConnectionError:
            # The server closes idle connections.
            self._connection.close()
            status, body = self._get(path)
        if status != 200:
            raise BenchFailed(f"GET {path} was answered with {status}: {body[:200]!r}")
        return json.loads(body)

    def counts(self) -> dict[str, int]:
        """Return how many tasks have each status. Raises `BenchFailed` if any has failed, which none should."""
        counts: dict[str, int] = self.ask("/v1/stats")["counts"]
        if counts.get("failed"):
            raise BenchFailed(f"{counts['failed']} tasks failed, though they do nothing that could fail")
        return counts

    def first_start(self) -> float:
        """Return when a worker started the first task, in seconds of the monotonic clock.

        Raises `BenchFailed` if none has.
        """
        found = list(self._directory.glob("first-*[0-9]"))
        if not found:
            raise BenchFailed("no worker has noted when its first task started")
        return min(int(path.read_text()) for path in found) / 1e9

    def has_started(self) -> bool:
        """Return whether a worker has recorded its first start."""
        return any(self._directory.glob("first-*[0-9]"))

    def forget_starts(self) -> None:
        """Remove the recorded starts before the next drain."""
        for path in self._directory.glob("first-*[0-9]"):
            path.unlink()

    @property
    def server_pid(self) -> int:
        """The process id of the server."""
        return self._server.process.pid

    def server_memory(self) -> Memory:
        """Return the server's resident memory."""
        return memory_of(self.server_pid)

    def server_descriptors(self) -> int:
        """Return how many descriptors the server has open, including sockets."""
        return descriptors_of(self.server_pid)

    def _get(self, path: str) -> tuple[int, bytes]:
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        response = self._connection.getresponse()
        return response.status, response.read()

    def _is_ready(self) -> bool:
        return self._get("/readyz")[0] == 200

    def _start(self, load: str, arguments: dict[str, Any]) -> Child:
        reached = {"url": self.url, "token": self.token} | arguments
        return start(self._children, load, reached, name=_name(self._directory, load))


@contextmanager
def open_harness(home: dict[str, str], **settings: str) -> Iterator[Harness]:
    """Run a server with the settings of `Testbed.home` during the block, and end everything started around it."""
    directory = Path(home["TREADLE_DATA_DIR"])
    environment = without_treadle() | home | settings | {"PYTHONUNBUFFERED": "1"}
    with Children(directory, environment) as children:
        started_at = time.monotonic()
        server = children.start(_name(directory, "server"), "server", "--port", "0")
        with closing(Harness(children, directory, server, started_at)) as harness:
            yield harness


def _name(directory: Path, kind: str) -> str:
    return f"{kind}-{len(list(directory.glob(f'{kind}-*.log'))) + 1}"

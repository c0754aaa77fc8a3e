"""What is watched: a real server with 50,000 tasks, or fewer, and three workers, each a process of its own."""

import asyncio
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from tests.chaos.processes import Process, ServerProcess, WorkerProcess, running_server
from tests.waiting import look_until
from treadle import Client

from .jobs import rotate
from .lonely import measure
from .tmux import Terminal, open_terminal

TASKS = 50_000
ALONE = 20
"""Tasks of the job that one worker alone serves."""

WATCH = (sys.executable, "-c", "from treadle.cli import main; main()", "watch")
WORKERS = {"web-1": "tests.terminal.jobs", "web-2": "tests.terminal.jobs", "lab-1": "tests.terminal.lonely"}
CONCURRENCY = 4
"""Tasks that a worker runs at once."""

QUICK = {"TREADLE_WORKER_TIMEOUT_SECONDS": "10", "TREADLE_SWEEPER_INTERVAL_SECONDS": "1"}
"""A silent worker is lost after ten seconds instead of sixty: nobody wants to wait."""


class Site:
    """The server, its workers, and what the server itself says of its tasks."""

    def __init__(self, server: ServerProcess, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.workers: dict[str, Process] = {}

    @property
    def environment(self) -> dict[str, str]:
        """What the dashboard is started with; no file of the user's has a say in it."""
        return {
            "TREADLE_URL": self.server.url,
            "TREADLE_TOKEN": self.server.token,
            "XDG_CONFIG_HOME": str(self.directory),
            "LC_ALL": "C.UTF-8",
        }

    def get(self, path: str, **query: Any) -> Any:
        """Return what the server answers."""
        answer = httpx.get(f"{self.server.url}/v1{path}", params=query, headers=self.server.headers, timeout=30)
        return answer.raise_for_status().json()

    def submit(self, job: str, payload: dict[str, Any]) -> None:
        """Submit a task; it is committed when this returns."""
        url = f"{self.server.url}/v1/rooms/@global/tasks/{job}"
        httpx.post(url, json={"payload": payload}, headers=self.server.headers, timeout=30).raise_for_status()

    def count(self, status: str) -> int:
        """Return how many tasks are in a state."""
        return int(self.get("/stats")["counts"].get(status, 0))

    def waiting(self, job: str) -> int:
        """Return how many tasks of a job are pending."""
        return int(self.get(f"/rooms/@global/jobs/{job}")["counts"].get("pending", 0))

    def ends(self, status: str) -> set[str]:
        """Return the last eight characters of the ids of the tasks in a state: what the dashboard shows of them."""
        return {task["id"][-8:] for task in self.get("/tasks", status=status, limit=500)["items"]}

    def assert_that_connections_broke(self, *names: str) -> None:
        """Of these workers the server knows that, though their heartbeats may not be missed yet."""
        found = {one["name"]: one["away_since"] for one in self.get("/workers")["items"]}
        assert all(found[name] for name in names), found

    def until_all_work(self) -> None:
        """Wait until every worker has as much as it runs at once."""
        wanted = CONCURRENCY * len(self.workers)
        look_until(lambda: self.count("running"), lambda running: running >= wanted)

    def start_worker(self, name: str) -> Process:
        """Start one of the workers."""
        worker = WorkerProcess(self.server, WORKERS[name], "--drain-grace", "0", concurrency=CONCURRENCY, name=name)
        worker.start()
        self.workers[name] = worker
        return worker


@contextmanager
def open_site(directory: Path, *, tasks: int = TASKS, settings: dict[str, str] = QUICK) -> Iterator[Site]:
    """Start all of it for the block."""
    with ExitStack() as stack:
        server = stack.enter_context(running_server(directory, f"sqlite:///{directory / 'treadle.db'}", **settings))
        asyncio.run(_submit(server, tasks))
        site = Site(server, directory)
        stack.callback(lambda: [process.stop() for process in site.workers.values()])
        for name in WORKERS:
            site.start_worker(name)
        site.until_all_work()
        yield site


async def _submit(server: ServerProcess, tasks: int) -> None:
    async with Client(server.url, server.token) as client:
        for begin in range(0, tasks, 5000):
            await client.submit_many([rotate.bind(angle=angle) for angle in range(begin, min(tasks, begin + 5000))])
        await client.submit_many([measure.bind(frame=frame) for frame in range(ALONE)])


@contextmanager
def watching(site: Site, *words: str, told: Path | None = None) -> Iterator[Terminal]:
    """Have the dashboard in a terminal during the block, from when it says all of the words on.

    Its stderr goes to the file `told`, if there is one.
    """
    # tmux refuses sockets with long paths, so pytest's own directories won't do.
    with TemporaryDirectory(prefix="treadle-") as name, open_terminal(Path(name), site.environment) as terminal:
        terminal.type(shlex.join(WATCH) + ("" if told is None else f" 2>{shlex.quote(str(told))}"))
        terminal.press("Enter")
        terminal.until_it_says("● live", *words)
        yield terminal

"""Servers, workers, clients and watchers of two versions together, each a process, and what they leave behind."""

import asyncio
import pickle
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.chaos.processes import Process, ServerProcess, WorkerProcess, traceback_in
from tests.clients import PLAIN
from tests.history.checker import check
from tests.history.records import History, marks_in
from tests.history.tables import read_tables
from tests.storm.observers import Follower, Windowed
from tests.storm.site import CONCURRENCY, MODULE, ROOM, SETTINGS, ended
from tests.versions.asking import READY
from tests.versions.older import ROOT, Version
from tests.waiting import until
from treadle_server.store.store import SqlStore

PATIENCE = 240.0
"""Seconds within which a client has said all, and all of it is done."""

TOLD = 60.0
"""Seconds after which an observer was told of everything, on a busy machine."""

HERE = {"PYTHONPATH": str(ROOT)}
"""Where each version finds the code of the tasks and of the clients: it is the same for both."""


@dataclass
class Site:
    """What runs in one scenario, and the history that is gathered of it."""

    directory: Path
    database_url: str
    servers: list[ServerProcess] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    history: History = field(default_factory=History)

    @property
    def journal(self) -> Path:
        """Return where tasks write down what they do."""
        return self.directory / "journal"

    @property
    def reached(self) -> dict[str, str]:
        """Return what brings workers and clients to the servers."""
        urls = ",".join(server.url for server in self.servers)
        return {"TREADLE_URL": urls, "TREADLE_TOKEN": self.servers[0].token}

    def add_server(self) -> ServerProcess:
        """Return a server that does not run yet; workers and clients are told its address."""
        home = self.directory / f"server-{len(self.servers)}"
        home.mkdir()
        self.servers.append(ServerProcess(home, self.database_url, **SETTINGS))
        return self.servers[-1]

    async def serve(self, version: Version, server: ServerProcess) -> Path:
        """Start a server, which may have run before as another version; return its log."""
        server.log = self.directory / f"server-{len(self.logs)}.log"
        self._run(server, version)
        await asyncio.to_thread(server.start)
        return server.log

    def work(self, version: Version, name: str) -> Process:
        """Start a worker."""
        said = {"TREADLE_TEST_JOURNAL": str(self.journal), "TREADLE_TEST_NAME": name, **HERE, **self.reached}
        worker = WorkerProcess(self.servers[0], MODULE, concurrency=CONCURRENCY, name=name, **said)
        worker.log = self.directory / f"{name}.log"
        return self._started(worker, version)

    def watch(self, version: Version, name: str) -> Process:
        """Start `treadle watch --json`."""
        watcher = Process(["watch", "--json", "--room", ROOM], self.directory / f"{name}.log", self.reached)
        return self._started(watcher, version)

    def ask(self, version: Version, name: str, seconds: float, seed: int) -> Process:
        """Start a client; what it said is read at the end."""
        self.files.append(self.directory / f"{name}.pickle")
        client = Process([str(self.files[-1]), str(seconds), str(seed)], self.directory / f"{name}.log", {})
        client.environment = {**HERE, **self.reached}
        client.run_from("import runpy; runpy.run_module('tests.versions.asking', run_name='__main__')")
        return self._started(client, version)

    def _run(self, process: Process, version: Version) -> None:
        process.run_by(version.python)
        self.logs.append(process.log)
        if process not in self.processes:
            self.processes.append(process)

    def _started(self, process: Process, version: Version) -> Process:
        self._run(process, version)
        process.start()
        return process

    async def ready(self, *clients: Process) -> None:
        """Wait until a server has answered each of the clients."""
        await until(lambda: all(READY in client.log.read_text() for client in clients), seconds=PATIENCE)

    async def over(self, *clients: Process) -> None:
        """Wait for the clients to have said all. Raises `RuntimeError` for one that failed."""
        async with asyncio.timeout(PATIENCE):
            for client in clients:
                if code := await client.ended():
                    raise RuntimeError(f"a client ended with {code}: {client.log.read_text()[-2000:]}")

    async def gather(self) -> None:
        """Bring what was said, done and written together; an older database is upgraded for it."""
        for file in self.files:
            self.history.said += pickle.loads(file.read_bytes())
        self.history.marks = list(marks_in(self.journal))
        store = SqlStore(self.database_url)
        await store.open()
        await store.close()
        self.history.tasks, self.history.runs = await read_tables(self.database_url)

    def judged(self) -> list[str]:
        """Return everything that is not as it must be."""
        tracebacks = {log.name: traceback_in(log) for log in self.logs}
        told = [f"{name} has a traceback: …{found}" for name, found in tracebacks.items() if found]
        return [*map(str, check(self.history)), *told]


@asynccontextmanager
async def running(directory: Path, database_url: str) -> AsyncIterator[Site]:
    """Give a site; at the end everything in it is stopped, workers before servers."""
    site = Site(directory, database_url)
    async with AsyncExitStack() as stack:
        stack.callback(lambda: [ended(process) for process in site.processes])
        yield site
        for process in sorted(site.processes, key=lambda one: isinstance(one, ServerProcess)):
            await asyncio.to_thread(process.stop)


@asynccontextmanager
async def observed(site: Site, *at: ServerProcess) -> AsyncIterator[None]:
    """Follow what happens during the block; what the observers know at its end is held against the tables."""
    urls, headers = [server.url for server in at], at[0].headers
    follower, window = Follower(urls, headers), Windowed(urls, headers)
    async with asyncio.TaskGroup() as group:
        watching = [group.create_task(one.run()) for one in (follower, window)]
        yield
        await _settled(at[-1], follower, window)
        for one in watching:
            one.cancel()
    site.history.observed = {"follower": follower.states, "window": window.states}


async def _settled(server: ServerProcess, follower: Follower, window: Windowed) -> None:
    """Wait until the observers know what the server lists; those that never do the checker finds."""
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=30, verify=PLAIN) as http:

        async def know_it() -> bool:
            answer = await http.get("/v1/tasks", params={"limit": Windowed.LIMIT})
            listed = {one["id"]: (one["status"], one["version"]) for one in answer.raise_for_status().json()["items"]}
            watched = {one["id"] for one in answer.json()["items"] if one["room_id"] == ROOM}
            return window.states == listed and all(follower.states.get(name) == listed[name] for name in watched)

        with suppress(TimeoutError):
            await until(know_it, seconds=TOLD, pause=0.2)


def scope(site: Site) -> None:
    """Say which tasks each observer was to know."""
    rows = site.history.tasks
    newest = sorted(rows, key=lambda row: -row.seq)[: Windowed.LIMIT]
    site.history.scopes = {
        "follower": {row.id for row in rows if row.room == ROOM},
        "window": {row.id for row in newest},
    }

"""What a storm falls upon: servers, workers, watchers and PostgreSQL, each a process, with a wire between any two."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.processes import Process, ServerProcess, WorkerProcess
from tests.chaos.wires import Wire
from tests.history.records import Era
from tests.servers.postgres import OwnPostgres, make_shiftable
from tests.storm import shifted
from tests.storm.wires import DatabaseWire, forgetful

WORKERS = 4
CONCURRENCY = 12
MODULE = "tests.storm.labour"
JOURNEYS = "tests.storm.journeys"
ROOM = "watched"
"""The room whose transitions are followed."""

SETTINGS = {
    "TREADLE_SWEEPER_INTERVAL_SECONDS": "1",
    "TREADLE_SESSION_GRACE_SECONDS": "2",
    "TREADLE_WORKER_TIMEOUT_SECONDS": "12",
}


@dataclass(frozen=True, slots=True)
class Tools:
    """What only root and Debian's programs give; empty where there is none."""

    faketime: str = ""
    """The library that tells a process another time of day."""
    can_mount: bool = False

    @classmethod
    def found(cls, *, faketime: bool = False) -> "Tools":
        """Look what there is; libfaketime, which slows a server down many times over, only when it is wanted."""
        library = faketime and next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
        return cls(str(library or ""), os.geteuid() == 0 and shutil.which("mount") is not None)


@dataclass
class Site:
    """Everything that runs, by name."""

    directory: Path
    tools: Tools
    postgres: OwnPostgres | None = None
    disk: Path | None = None
    """A small file system that the database has to itself."""
    servers: dict[str, ServerProcess] = field(default_factory=dict)
    workers: dict[str, WorkerProcess] = field(default_factory=dict)
    watchers: dict[str, Process] = field(default_factory=dict)
    wires: dict[str, Wire] = field(default_factory=dict)
    """Those that workers, watchers and clients reach servers through."""
    database_wires: dict[str, DatabaseWire] = field(default_factory=dict)
    database_url: str = ""
    steps: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Since when, and by how many seconds, the clocks of servers and of the database have been off."""

    @property
    def journal(self) -> Path:
        """Return where tasks write down what they do."""
        return self.directory / "journal"

    @property
    def headers(self) -> dict[str, str]:
        """Return what makes a request the superuser's; the token of either server is one for the whole database."""
        return next(iter(self.servers.values())).headers

    @property
    def token(self) -> str:
        """Return the superuser's token."""
        return next(iter(self.servers.values())).token

    @property
    def processes(self) -> dict[str, Process]:
        """Return every process that is ours."""
        return {**self.servers, **self.workers, **self.watchers}

    def most_ahead(self, name: str) -> float:
        """Return by how many seconds a clock has been ahead at most."""
        return max([0.0, *(off for _, off in self.steps.get(name, ()))])

    @property
    def eras(self) -> list[Era]:
        """Return what the store's clock showed: PostgreSQL's own, or that of the one server on SQLite."""
        now = time.time() - time.monotonic()
        whose = next(iter(self.servers)) if self.postgres is None else "database"
        return [Era(since, now + off) for since, off in [(float("-inf"), 0.0), *self.steps.get(whose, ())]]

    def clock_file(self, name: str) -> Path:
        """Return the file that says by how much a server's time of day is off."""
        return self.directory / f"{name}.clock"

    async def wired(self, stack: AsyncExitStack, who: str) -> str:
        """Lay a wire from `who` to each server, and return the URLs at its near ends."""
        urls = []
        for name, server in self.servers.items():
            wire = self.wires[f"{who}-{name}"] = forgetful(Wire(server.url))
            await wire.listen()
            stack.callback(wire.close)
            urls.append(wire.url)
        return ",".join(urls)


@asynccontextmanager
async def site(directory: Path, servers: int, tools: Tools, *, on_postgres: bool) -> AsyncIterator[Site]:
    """Run everything during the block."""
    async with AsyncExitStack() as stack:
        here = Site(directory, tools)
        if tools.can_mount:
            here.disk = _mounted(stack, directory / "disk")
        if on_postgres:
            here.postgres = OwnPostgres(here.disk or directory)
            here.postgres.start()
            stack.callback(here.postgres.stop)
            await make_shiftable(here.postgres.url)
        for name in "ab"[:servers]:
            await _serve(here, stack, name)
        for n in range(WORKERS):
            await _work(here, stack, f"worker-{n}")
        await _watch(here, stack, "watcher")
        yield here
        # They say good-bye, which is to arrive.
        for some in (here.watchers, here.workers, here.servers):
            await asyncio.gather(*(asyncio.to_thread(one.stop) for one in some.values()))


def _mounted(stack: AsyncExitStack, path: Path) -> Path:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500m,mode=755", "tmpfs", str(path)], check=True)
    stack.callback(subprocess.run, ["umount", "-l", str(path)], check=True)
    return path


async def _serve(here: Site, stack: AsyncExitStack, name: str) -> None:
    home = (here.disk or here.directory) / name
    home.mkdir()
    here.database_url = f"sqlite:///{home / 'treadle.db'}"
    url = here.database_url
    if here.postgres is not None:
        here.database_url = here.postgres.url
        wire = here.database_wires[f"database-{name}"] = DatabaseWire(here.postgres.url)
        forgetful(wire)
        await wire.listen()
        stack.callback(wire.close)
        url = wire.database_url
    here.clock_file(name).write_text("+0")
    faked = {
        "LD_PRELOAD": here.tools.faketime,
        "FAKETIME_TIMESTAMP_FILE": str(here.clock_file(name)),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    seam = {shifted.FILE: str(here.clock_file(name))}
    server = here.servers[name] = ServerProcess(home, url, **SETTINGS, **(faked if here.tools.faketime else seam))
    if not here.tools.faketime:
        server.run_from("from tests.storm.shifted import main; main()")
    server.log = here.directory / f"server-{name}.log"
    stack.callback(ended, server)
    await asyncio.to_thread(server.start)


async def _work(here: Site, stack: AsyncExitStack, name: str) -> None:
    server = next(iter(here.servers.values()))
    said = {"TREADLE_TEST_JOURNAL": str(here.journal), "TREADLE_TEST_NAME": name}
    urls = await here.wired(stack, name)
    worker = WorkerProcess(server, MODULE, JOURNEYS, concurrency=CONCURRENCY, name=name, **said, TREADLE_URL=urls)
    worker.log = here.directory / f"{name}.log"
    here.workers[name] = worker
    stack.callback(ended, worker)
    worker.start()


async def _watch(here: Site, stack: AsyncExitStack, name: str) -> None:
    reached = {"TREADLE_URL": await here.wired(stack, name), "TREADLE_TOKEN": here.token}
    watcher = Process(["watch", "--json", "--room", ROOM], here.directory / f"{name}.log", reached)
    here.watchers[name] = watcher
    stack.callback(ended, watcher)
    watcher.start()


def ended(process: Process) -> None:
    """Leave no process behind, though it stands still or never listens."""
    if not process.has_ended:
        process.kill()

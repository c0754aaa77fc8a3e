"""A real server and real workers, each a process of its own, for one run of a measuring program."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import asyncpg
import psutil

from tests.chaos.processes import ServerProcess, WorkerProcess, running_server, stopped_at_the_end
from tests.embedded import embedded_postgres
from treadle import Client

_MEMORY = Path("/dev/shm")
SHARED = _MEMORY if _MEMORY.is_dir() else None
"""Memory that processes share, where the machine has it: what the tasks check must not cost the disk."""


@contextmanager
def databases(kind: str) -> Iterator[str]:
    """Give the URL in which `new_database` makes databases: empty for SQLite, else that of a PostgreSQL server."""
    if kind == "sqlite":
        yield ""
        return
    with (
        TemporaryDirectory(prefix="treadle-bench-", ignore_cleanup_errors=True) as directory,
        embedded_postgres().get_server(Path(directory, "data"), cleanup_mode="stop") as server,
    ):
        yield server.get_uri()


async def new_database(url: str, directory: Path) -> str:
    """Return the URL of an empty database."""
    if not url:
        return f"sqlite:///{directory / 'treadle.db'}"
    name = f"bench_{uuid4().hex[:12]}"
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f'CREATE DATABASE "{name}"')
    finally:
        await connection.close()
    head, _, query = url.partition("?")
    return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")


class Site:
    """One server, its client, and the directory that the workers' tasks share."""

    def __init__(self, server: ServerProcess, client: Client, root: Path, stack: ExitStack) -> None:
        self.server = server
        self.client = client
        self._root = root
        self._stack = stack
        self.process = psutil.Process(server._process.pid)

    async def open_workers(self, module: str, count: int, *, concurrency: int) -> None:
        """Start so many worker processes, and wait until the server has seen all of them."""
        for _ in range(count):
            worker = WorkerProcess(self.server, module, concurrency=concurrency, TREADLE_BENCH_ROOT=str(self._root))
            worker.start()
            self._stack.enter_context(stopped_at_the_end(worker))
        while (await self.client.stats()).workers.get("online", 0) < count:  # noqa: ASYNC110 - processes
            await asyncio.sleep(0.05)

    def cpu_seconds(self) -> float:
        """Return the processor time that the server has taken until now."""
        times = self.process.cpu_times()
        return times.user + times.system

    async def ended(self, total: int) -> dict[str, int]:
        """Wait until so many tasks have ended, and return how many did in which way."""
        while True:
            counts = (await self.client.stats()).counts
            over = {status: counts.get(status, 0) for status in ("completed", "failed", "cancelled")}
            if sum(over.values()) >= total:
                return over
            await asyncio.sleep(0.02)


@asynccontextmanager
async def open_site(database: str) -> AsyncIterator[Site]:
    """Open a server on an empty database for the block; `database` is what `databases` gave."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="treadle-bench-")))
        root = Path(stack.enter_context(TemporaryDirectory(prefix="treadle-bench-", dir=SHARED)))
        server = stack.enter_context(running_server(directory, await new_database(database, directory)))
        async with Client(server.url, server.token) as client:
            yield Site(server, client, root, stack.enter_context(ExitStack()))

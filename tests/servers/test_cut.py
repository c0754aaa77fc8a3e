"""Two servers whose connections to PostgreSQL are cut, held up and ended, and PostgreSQL with them (N3, G11)."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest

from tests.chaos.processes import ServerProcess
from tests.servers.postgres import OwnPostgres
from tests.waiting import until
from treadle_server.store.postgres.dedicated import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

ANSWERED = 10.0
"""Seconds after the last of it within which both servers do what they are asked; a busy machine gets more."""

MOST_BYTES_A_SECOND = 4_000
"""Of a server's log. One that spun wrote 2.7 MB a second."""


class Wire:
    """Passes bytes between the servers and PostgreSQL's socket; it may cut every connection, and hold everything up."""

    def __init__(self, socket: str) -> None:
        self._path = f"{socket}/.s.PGSQL.5432"
        self._writers: set[asyncio.StreamWriter] = set()
        self._passes = asyncio.Event()
        self._passes.set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_database, to_database = await asyncio.open_unix_connection(self._path)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, to_database}
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump(reader, to_database))
            group.create_task(self._pump(from_database, writer))
        self._writers -= {writer, to_database}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._passes.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            return
        finally:
            writer.transport.abort()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def hold_up(self, seconds: float) -> None:
        self._passes.clear()
        await asyncio.sleep(seconds)
        self._passes.set()


@asynccontextmanager
async def wire_to(postgres: OwnPostgres) -> AsyncIterator[tuple[Wire, str]]:
    wire, split = Wire(postgres.socket), urlsplit(postgres.url)
    listening = await asyncio.start_server(wire.handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield wire, f"postgresql://{split.username or 'postgres'}@127.0.0.1:{port}{split.path}"
    finally:
        listening.close()
        wire.cut()


async def end_sessions(postgres: OwnPostgres) -> None:
    connection = await asyncpg.connect(postgres.url)
    try:
        await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    except asyncpg.PostgresError:
        return
    finally:
        await connection.close()


async def restart(postgres: OwnPostgres) -> None:
    await asyncio.to_thread(postgres.stop, "immediate")
    await asyncio.to_thread(postgres.start)


async def submits(server: ServerProcess) -> bool:
    """Whether the server does what it is asked, and says that it is well."""
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=5) as client:
        try:
            job = {"category": "tasks", "name": "add", "schema": {}, "retain": True}
            made = await client.put("/v1/rooms/lab/jobs", json=job)
            put_in = await client.post("/v1/rooms/lab/tasks/lab:tasks:add", json={"payload": {}})
            ready = await client.get("/readyz")
        except httpx.TransportError:
            return False
    return made.is_success and put_in.is_success and ready.is_success


async def ask(server: ServerProcess) -> None:
    """Ask the server for something all the time, as users do who try again."""
    while True:
        await submits(server)
        await asyncio.sleep(0.05)


async def trouble(wire: Wire, postgres: OwnPostgres, seconds: float) -> None:
    """Everything that may happen to connections: each in turn, and then again until the time is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        for _ in range(5):
            wire.cut()
            await asyncio.sleep(random.uniform(0, 0.4))
            await end_sessions(postgres)
            await asyncio.sleep(random.uniform(0, 0.4))
        await wire.hold_up(PATIENCE + 1)
        wire.cut()
        await restart(postgres)
        if loop.time() > until:
            return


@asynccontextmanager
async def _stopped_at_the_end(servers: list[ServerProcess]) -> AsyncIterator[None]:
    """They say good-bye over the wire, which is to go on meanwhile."""
    try:
        yield
    finally:
        await asyncio.gather(*(asyncio.to_thread(server.stop) for server in servers))


async def _both_go_on(postgres: OwnPostgres, directory: Path, seconds: float) -> None:
    async with wire_to(postgres) as (wire, url):
        servers = [ServerProcess(directory / name, url) for name in ("a", "b")]
        for server in servers:
            server.directory.mkdir()
        async with _stopped_at_the_end(servers):
            # One after the other: the first brings the schema up to date.
            for server in servers:
                await asyncio.to_thread(server.start)
            written = [server.log.stat().st_size for server in servers]
            began = asyncio.get_running_loop().time()
            asking = [asyncio.ensure_future(ask(server)) for server in servers]
            await trouble(wire, postgres, seconds)
            lasted = asyncio.get_running_loop().time() - began
            for one in asking:
                one.cancel()

            async def both_take() -> bool:
                return all([await submits(server) for server in servers])

            await until(both_take, seconds=3 * ANSWERED, pause=0.1)

            over = asyncio.get_running_loop().time() - began - lasted
            for server, before in zip(servers, written, strict=True):
                rate = (server.log.stat().st_size - before) / lasted
                print(f"{lasted:.0f} s of trouble, {rate:.0f} bytes of log a second, on after {over:.1f} s")
                assert rate < MOST_BYTES_A_SECOND, server.log.read_text()[-5000:]


@pytest.mark.crossed
async def test_two_servers_go_on_after_their_connections_were_cut_and_write_little_n3(
    postgres: OwnPostgres, tmp_path: Path
) -> None:
    await _both_go_on(postgres, tmp_path, 0)


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_two_servers_go_on_after_two_minutes_of_cut_connections_n3(postgres: OwnPostgres, tmp_path: Path) -> None:
    await _both_go_on(postgres, tmp_path, 120)

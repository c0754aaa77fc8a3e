"""A primary that dies and a standby that takes its place: nothing acknowledged is lost, and all go on (G1, G11)."""

import asyncio
import itertools
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import asyncpg
import httpx
import pytest

from tests import waiting
from tests.embedded import embedded_postgres
from tests.servers.conftest import Site, open_site
from tests.servers.postgres import START_LIMIT, OwnPostgres
from treadle_server.errors import StoreUnavailable
from treadle_server.store.postgres.dedicated import DedicatedConnection
from treadle_server.store.store import SqlStore
from treadle_server.store.urls import parse_url

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

JOB = "lab:tasks:noop"
_REGISTRATION = {"category": "tasks", "name": "noop", "schema": {}}

PATIENCE = 30

until = partial(waiting.until, seconds=PATIENCE)
"""Seconds that a busy machine gets for what is to come within ten of the promotion."""


class Pair:
    """A primary with a synchronous standby, each on a Unix socket of its own."""

    def __init__(self, directory: Path) -> None:
        self.primary = OwnPostgres(directory)
        self._user = self.primary._user
        self.primary.start()
        self.standby_data, self.standby_socket = directory / "standby", directory / "socket"
        self.standby_socket.mkdir(mode=0o777)
        if self._user:
            shutil.chown(self.standby_socket, self._user)
            shutil.chown(directory, self._user)
        source = f"host={self.primary.socket} user=postgres application_name=second"
        embedded_postgres().pg_basebackup(
            ["-D", str(self.standby_data), "-d", source, "-R", "-c", "fast"], user=self._user
        )
        self._control("-o", '-h ""', "-o", f"-k {self.standby_socket}", "-l", str(self.standby_data / "log"), "start")

    @property
    def url(self) -> str:
        hosts = f"{self.primary.socket},{self.standby_socket}"
        return f"postgresql://postgres@/postgres?host={hosts}&port=5432,5432&target_session_attrs=read-write"

    def _control(self, *arguments: str) -> None:
        words = ["-w", "-t", str(START_LIMIT), *arguments]
        embedded_postgres().pg_ctl(words, pgdata=self.standby_data, user=self._user, timeout=START_LIMIT)

    async def make_synchronous(self) -> None:
        await self.on(self.primary.socket, "ALTER SYSTEM SET synchronous_standby_names = 'second'")
        await self.on(self.primary.socket, "SELECT pg_reload_conf()")
        state = "SELECT sync_state FROM pg_stat_replication"
        await until(lambda: self.on(self.primary.socket, state), lambda found: found == "sync")

    async def on(self, socket: str | Path, statement: str) -> object:
        connection = await asyncpg.connect(user="postgres", database="postgres", host=str(socket))
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    def kill_primary(self) -> None:
        """Kill it as the loss of its machine would."""
        os.kill(int((self.primary._data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        self.primary._is_running = False

    def promote(self) -> None:
        self._control("promote")

    def stop(self) -> None:
        self._control("-m", "immediate", "stop")
        self.primary.stop("immediate")


@pytest.fixture
def pair() -> Iterator[Pair]:
    # Not below pytest's own directory: that of root's tests is closed to the user who runs PostgreSQL.
    directory = Path(mkdtemp(prefix="treadle-pair-"))
    directory.chmod(0o755)
    pair = Pair(directory)
    yield pair
    pair.stop()
    shutil.rmtree(directory, ignore_errors=True)


async def _submit(site: Site, n: int) -> str | None:
    """Submit a task, and return its id if that was acknowledged."""
    try:
        answer = await site.http.post(f"/v1/rooms/lab/tasks/{JOB}", json={"payload": {"n": n}})
    except httpx.TransportError:
        return None
    return str(answer.json()["id"]) if answer.is_success else None


async def _submit_on(sites: tuple[Site, Site], taken: list[str]) -> None:
    """Put in tasks all the time, as users do who try again, and note those that were acknowledged."""
    for n in itertools.count():
        if (task_id := await _submit(sites[n % 2], n)) is not None:
            taken.append(task_id)
        await asyncio.sleep(0.01)


async def _are_ready(sites: tuple[Site, Site]) -> bool:
    answers = [await site.http.get("/readyz") for site in sites]
    return all(answer.is_success for answer in answers)


def _leads(site: Site) -> bool:
    return bool(site.served.app.state.ctx.services.leader.is_leading)


async def test_a_standby_takes_the_place_of_a_killed_primary_and_nothing_acknowledged_is_lost_g1_g11(
    pair: Pair, tmp_path: Path
) -> None:
    await pair.make_synchronous()
    async with AsyncExitStack() as stack:
        settings = {"sweeper_interval_seconds": 0.5}
        sites = (
            await open_site(stack, pair.url, tmp_path / "data", **settings),
            await open_site(stack, pair.url, tmp_path / "data", **settings),
        )
        worker = (await sites[0].ask("PUT", "/v1/rooms/lab/jobs", json=_REGISTRATION))["worker_id"]
        held = await sites[0].ask("POST", f"/v1/rooms/lab/tasks/{JOB}", json={"payload": {"n": -1}})
        await sites[1].ask("POST", "/v1/tasks/claim", json={"worker_id": worker})
        await sites[1].ask("POST", f"/v1/tasks/{held['id']}/runs/0/started")
        taken: list[str] = []
        submitting = asyncio.ensure_future(_submit_on(sites, taken))
        await until(lambda: len(taken) >= 100)

        pair.kill_primary()
        acknowledged = len(taken)
        await asyncio.to_thread(pair.promote)
        # It waits for a standby of its own otherwise.
        await pair.on(pair.standby_socket, "ALTER SYSTEM SET synchronous_standby_names = ''")
        await pair.on(pair.standby_socket, "SELECT pg_reload_conf()")
        began = time.monotonic()

        async def both_go_on() -> bool:
            return len(taken) >= acknowledged + 100 and await _are_ready(sites) and any(map(_leads, sites))

        await until(both_go_on)
        print(f"both servers go on {time.monotonic() - began:.1f} s after the promotion")
        submitting.cancel()

        assert await pair.on(
            pair.standby_socket, f"SELECT count(*) FROM tasks WHERE id = ANY('{{{','.join(taken)}}}')"
        ) == len(taken)
        await sites[0].ask("POST", f"/v1/tasks/{held['id']}/runs/0/completed", json={"result": 1})
        assert (await sites[1].ask("GET", f"/v1/tasks/{held['id']}"))["status"] == "completed"


async def test_nothing_is_remembered_of_a_postgresql_that_ended(postgres: OwnPostgres) -> None:
    """A standby that takes its place names the same exclusive writer, but may lack the last commits."""
    store = SqlStore(postgres.url)
    await store.open()
    await store.seek_exclusive()
    try:
        async with store.write() as tx:
            version = tx.version

        postgres.stop()
        postgres.start()
        await until(lambda: _refusal(store), lambda refusal: not refusal)

        async with store.write() as tx:
            assert tx.version not in {None, version}
    finally:
        await store.close()


async def test_a_host_that_takes_no_writes_any_more_is_left_at_once(postgres: OwnPostgres) -> None:
    store = SqlStore(postgres.url)
    await store.open()
    dedicated = DedicatedConnection(postgres.url, lambda: None)
    before = await dedicated.open()
    connection = await asyncpg.connect(postgres.url)
    try:
        async with store.write():
            pass  # from here on what it believes of the time and of other writers is right, and nothing else fails
        await connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        await connection.execute("SELECT pg_reload_conf()")

        # Each connection's own process reads the setting anew when it comes to it.
        assert "no longer accepts writes" in await until(lambda: _refusal(store))

        assert store.connections_checked_out() == 0
        await before.fetchval("SELECT 1")
        with pytest.raises(StoreUnavailable, match=r"accepts no writes|no longer accepts writes"):
            await dedicated.open()
        assert before.is_closed()
        assert not dedicated.is_open, "the next look would leave it at once, and connect again without an end"
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
        await connection.execute("SELECT pg_reload_conf()")
        await until(lambda: _refusal(store), lambda refusal: not refusal)
        await dedicated.open()
    finally:
        await connection.close()
        await dedicated.close()
        await store.close()


async def _refusal(store: SqlStore) -> str:
    """Why the store can't be written to; nothing when it can."""
    try:
        async with store.write():
            return ""
    except StoreUnavailable as error:
        return str(error)


@pytest.mark.parametrize(
    ("text", "hosts", "ports"),
    [
        ("postgresql://me:pw@a:5433,b:5434/tasks?target_session_attrs=read-write", "a,b", "5433,5434"),
        ("postgresql://a,b:6000/tasks?target_session_attrs=read-write", "a,b", "5432,6000"),
    ],
)
def test_several_hosts_are_written_as_libpq_writes_them(text: str, hosts: str, ports: str) -> None:
    url = parse_url(text)

    assert dict(url.query) == {"host": hosts, "port": ports, "target_session_attrs": "read-write"}
    assert (url.drivername, url.database) == ("postgresql+asyncpg", "tasks")

"""A PostgreSQL of a test's own, which may be stopped and started, and pgbouncer before it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlsplit

import asyncpg
import psutil

from tests.chaos.processes import free_port
from tests.embedded import embedded_postgres
from tests.waiting import look_until

START_LIMIT = 60
"""Seconds that a PostgreSQL may take to start on a busy machine."""


class OwnPostgres:
    """A server in a directory of its own, on a Unix socket."""

    def __init__(self, directory: Path) -> None:
        server = embedded_postgres().get_server(directory / "data", cleanup_mode=None)
        self._data, self._user = server.pgdata, server.system_user
        self.url = server.get_uri()
        self.socket = parse_qs(urlsplit(self.url).query)["host"][0]
        self._is_running = True
        # What is tested here is Treadle, not that PostgreSQL survives a loss of power.
        server.psql("ALTER SYSTEM SET fsync = off")
        self.stop()

    def _control(self, *arguments: str) -> None:
        embedded_postgres().pg_ctl(["-w", *arguments], pgdata=self._data, user=self._user, timeout=START_LIMIT)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        if not self._is_running:
            options = ["-o", '-h ""', "-o", f"-k {self.socket}"]
            self._control("-t", str(START_LIMIT), *options, "-l", str(self._data / "log"), "start")
            self._is_running = True

    def start_again(self) -> None:
        """Start it if it has ended by itself, as it does when its disk is full."""
        file = self._data / "postmaster.pid"
        self._is_running = file.exists() and psutil.pid_exists(int(file.read_text().split()[0]))
        self.start()

    def stop(self, how: str = "fast") -> None:
        """End its sessions and stop it: `fast`, or `immediate` as if the power had failed."""
        if self._is_running:
            self._control("-m", how, "stop")
            self._is_running = False

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Have it answer nothing during the block, though its machine takes connections for it."""
        main = psutil.Process(int((self._data / "postmaster.pid").read_text().split()[0]))
        processes = [main, *main.children(recursive=True)]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()


_BOUNCER = """
[databases]
* = host={socket} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
server_lifetime = 2
logfile = {log}
"""
"""Few connections, each of them soon another one: what a client left in its session is soon missed."""


@contextmanager
def pgbouncer(url: str) -> Iterator[str]:
    """Give the URL of the same database behind a real pgbouncer that pools transactions."""
    # Not below pytest's own directory: that of root's tests is closed to the user who runs it.
    with TemporaryDirectory(prefix="treadle-pgbouncer-") as directory:
        yield from _pgbouncer(Path(directory), url)


def _pgbouncer(directory: Path, url: str) -> Iterator[str]:
    split = urlsplit(url)
    port, log = free_port(), directory / "pgbouncer.log"
    config = directory / "pgbouncer.ini"
    socket = parse_qs(split.query).get("host", [split.hostname])[0]
    config.write_text(_BOUNCER.format(socket=socket, user=split.username or "postgres", port=port, log=log))
    directory.chmod(0o777)
    command = [shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin") or "pgbouncer", str(config)]
    # It refuses to run as root; the socket's owner may use the socket.
    owner = {"user": Path(socket, ".s.PGSQL.5432").stat().st_uid} if socket.startswith("/") else {"user": "nobody"}
    user = owner if os.geteuid() == 0 else {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **user) as process:
        try:
            said = look_until(
                lambda: log.read_text() if log.exists() else "",
                lambda text: "process up" in text or process.poll() is not None,
                seconds=START_LIMIT,
            )
            if process.poll() is not None:
                raise RuntimeError(f"pgbouncer did not start: {said or config}")
            yield f"postgresql://{split.username or 'postgres'}@127.0.0.1:{port}{split.path}"
        finally:
            process.terminate()
            process.wait(START_LIMIT)


SHIFTED = """
CREATE SCHEMA shifted;
CREATE TABLE shifted.by (seconds double precision);
INSERT INTO shifted.by VALUES (0);
CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT pg_catalog.clock_timestamp() + seconds * interval ''1 second'' FROM shifted.by LIMIT 1';
"""


async def make_shiftable(url: str) -> None:
    """Give the database a clock that `shifted.by` sets, before anybody is connected: a session keeps its search path.

    Whoever makes tables makes them in the first schema, which is the one that they are in without this.
    """
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(SHIFTED)
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f'ALTER DATABASE "{name}" SET search_path = public, shifted, pg_catalog')
    finally:
        await connection.close()

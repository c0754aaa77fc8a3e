"""Whether the database is reached, and how it is read: in one snapshot, by a connection that can change nothing."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from sqlalchemy import URL, Connection, create_engine, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import NullPool

from treadle.wire.amounts import in_bytes
from treadle.wire.findings import Check, Finding, Seen
from treadle_server.checkup import counts, disk, postgres, schema, snapshots
from treadle_server.errors import StoreUnavailable
from treadle_server.private import why_not_writable
from treadle_server.store.connections import postgres_engine
from treadle_server.store.failures import FAILURES_EXPLAINED, advice_on, in_brief
from treadle_server.store.sqlite.places import LONE_LOG, SIDES, file_of, lone_log
from treadle_server.store.urls import shown

Examine = Callable[[Connection], list[Finding]]

OLDEST_SQLITE = (3, 38, 0)
"""The first one that has what the statements need (`->>`)."""

CONNECTIONS = 2
"""To PostgreSQL at once: to count the tasks takes long, and what else is looked at does not wait for that."""

STATEMENT_TIMEOUT = 60_000
"""Milliseconds after which PostgreSQL ends a statement that nobody waits for any more."""


def of_sqlite(url: URL, data_dir: Path) -> Seen:
    """Look at SQLite's file, and return what else there is to look at in it."""
    path = file_of(url)
    if path.is_symlink():
        told = f"{path} is a link to {path.readlink()}, which can't be found"
        return [Finding("database", "fail", told, "check that its disk is mounted, or remove the link")]
    if (alone := lone_log(path)) is not None:
        return [Finding("database", "fail", alone, LONE_LOG)]
    if not path.exists():
        return [Finding("database", "ok", f"{path} does not exist yet: no server has started here")]
    seen: list[Finding | Check] = []
    if not path.absolute().is_relative_to(data_dir.absolute()):
        seen.append(Check("disk", partial(disk.look, "the database", path.parent)))
    try:
        with closing(_open(path)) as connection:
            [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        advice = advice_on(error) or "check its permissions and that it is an SQLite file; otherwise restore the backup"
        return [*seen, Finding("database", "fail", f"{path} can't be read ({error})", advice)]
    told = f"{path}, SQLite {sqlite3.sqlite_version}, {in_bytes(path.stat().st_size)}"
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        return [
            *seen,
            Finding("database", "fail", f"{told}: at least {needed} is needed", "use a Python with a newer SQLite"),
        ]
    if (closed := _not_writable(path)) is not None:
        means = f"{told}: {'it' if closed == path else closed} is not writable: {why_not_writable(closed)}"
        return [*seen, Finding("database", "fail", means, "make it writable for the server's user, or move it")]
    if tables and not _has_log(path) and not _is_in_wal_mode(path):
        advice = "start a server, which sets it; if it is on a network file system, move it to a local disk"
        means = f"{told}: its journal mode is not WAL, so readers block the writer"
        seen.append(Finding("database", "warn", means, advice))
    else:
        seen.append(Finding("database", "ok", told))
    looks = {"migrations": schema.look, "counts": counts.look}
    further = [Check(name, partial(_in_sqlite, path, name, look)) for name, look in looks.items()]
    return [*seen, *further, Check("snapshots", partial(snapshots.look_at_log, path))]


def _not_writable(path: Path) -> Path | None:
    """Return the database, or the file beside it, that may not be written."""
    files = (path, *(path.with_name(path.name + side) for side in SIDES))
    return next((one for one in files if one.exists() and not os.access(one, os.W_OK)), None)


def _open(path: Path) -> sqlite3.Connection:
    """Open the file for reading alone.

    Without a log beside it nobody writes: then it is read as it is, for SQLite would make a log and an index of it.
    """
    mode = "mode=ro" if _has_log(path) else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=5, isolation_level=None)
    connection.execute("PRAGMA query_only=ON")
    return connection


def _has_log(path: Path) -> bool:
    return path.with_name(f"{path.name}-wal").exists()


def _is_in_wal_mode(path: Path) -> bool:
    """Return what the file's header says of how it is written: a connection to what can't change does not tell it."""
    with path.open("rb") as file:
        return file.read(19)[18:] == b"\x02"


def _in_sqlite(path: Path, name: str, look: Examine) -> Seen:
    engine = create_engine("sqlite://", creator=partial(_open, path), poolclass=NullPool)
    try:
        with FAILURES_EXPLAINED, engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            return look(connection)
    except StoreUnavailable as error:
        return [Finding(name, "fail", error.detail)]


async def of_postgres(url: URL) -> Seen:
    """Reach PostgreSQL, and return what there is to look at in it."""
    name = shown(url)
    looks: dict[str, Examine] = {
        "database": postgres.look,
        "disk": postgres.look_at_disk,
        "migrations": schema.look,
        "counts": counts.look,
        "snapshots": snapshots.look_at_sessions,
        "clocks": postgres.look_at_clock,
    }
    database = _Postgres(url, len(looks))
    try:
        told = await database.examine(_size)
    except BaseException as error:
        await database.close()
        if not isinstance(error, DBAPIError | PoolTimeout | OSError):
            raise
        advice = advice_on(error) or "check that it is running, TREADLE_DATABASE_URL, and the network in between"
        return [Finding("database", "fail", f"{name} does not answer ({in_brief(error)})", advice)]
    return [
        *(Finding(one.check, one.grade, f"{name}, {one.detail}", one.advice) for one in told),
        *(Check(name, partial(database.look, name, look)) for name, look in looks.items()),
    ]


class _Postgres:
    """PostgreSQL, over as few connections as let the checks go on beside one that takes long."""

    def __init__(self, url: URL, looks: int) -> None:
        self._engine = postgres_engine(url, size=CONNECTIONS)
        self._left = looks

    async def close(self) -> None:
        """Close the connections."""
        await self._engine.dispose()

    async def look(self, name: str, look: Examine) -> Seen:
        """Look at one thing; the last of the looks closes the connections."""
        try:
            with FAILURES_EXPLAINED:
                return await self.examine(look)
        except StoreUnavailable as error:
            return [Finding(name, "fail", error.detail)]
        finally:
            self._left -= 1
            if not self._left:
                await self.close()

    async def examine(self, look: Examine) -> list[Finding]:
        """Look at one thing, in a snapshot of its own."""
        async with self._engine.connect() as connection:
            await connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True, postgresql_deferrable=False
            )
            await connection.execute(text(f"SET LOCAL statement_timeout = {STATEMENT_TIMEOUT}"))
            await connection.execute(text("SET LOCAL enable_seqscan = on"))
            return await connection.run_sync(look)


def _size(connection: Connection) -> list[Finding]:
    size = connection.execute(select(func.pg_database_size(func.current_database()))).scalar_one()
    version = connection.execute(text("SHOW server_version")).scalar_one()
    return [Finding("database", "ok", f"PostgreSQL {version}, {in_bytes(size)}")]

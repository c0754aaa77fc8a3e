"""SQLite as a place of a copy: a file that is read, or one that is made aside and put into its place when whole."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Table, insert, inspect, text

from treadle_server.copying.contents import Row, asynchronous, batched, check_empty, count_of, rows_of
from treadle_server.errors import ValidationFailed
from treadle_server.store.connections import sqlite_reader, sqlite_writer
from treadle_server.store.migrations import check_current, upgrade
from treadle_server.store.sqlite.lock import DatabaseInUse, hold_lock
from treadle_server.store.sqlite.places import SIDES, check_log, file_of
from treadle_server.store.tables import metadata

UNFINISHED = "-copying"
"""What the name of a file that is not whole yet ends with."""

AT_ONCE = 200
"""Rows that are read at once."""

_GREATEST = {
    "task_seq": "SELECT max(coalesce((SELECT max(seq) FROM tasks), 0),"
    " coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'task_seq'), 0))",
    "job_num": "SELECT coalesce(max(num), 0) FROM jobs",
    "lane_id": "SELECT coalesce(max(id), 0) FROM lanes",
    "target_num": "SELECT coalesce(max(num), 0) FROM targets",
}
"""As `allocate.py` finds them."""


class SqliteSource:
    """A file that is open."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def count(self, table: Table) -> int:
        """Return how many rows of a table are copied."""
        return int(self._connection.execute(count_of(table, "sqlite")).scalar_one())

    async def read(self, table: Table) -> AsyncIterator[list[Row]]:
        """Give what is copied of a table, batch by batch."""
        found = self._connection.execution_options(yield_per=AT_ONCE).execute(rows_of(table, "sqlite"))
        async for batch in batched(asynchronous(iter(found))):
            yield batch

    async def counters(self) -> Mapping[str, int]:
        """Return the greatest keys that were ever given."""
        return {name: int(self._connection.execute(text(sql)).scalar_one()) for name, sql in _GREATEST.items()}


class SqliteDestination(SqliteSource):
    """A file that is made."""

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        """Write rows of a table, each its values in the order of the columns."""
        names = table.columns.keys()
        self._connection.execute(insert(table), [dict(zip(names, row, strict=True)) for row in rows])

    async def check(self) -> None:
        """Raise `ValidationFailed` when a row names another one that is not there."""
        if (found := self._connection.exec_driver_sql("PRAGMA foreign_key_check").first()) is not None:
            raise ValidationFailed(
                f"a row of {found[0]} refers to a row of {found[2]} that does not exist: it was deleted by hand;"
                " delete the rows that refer to it too, and copy again"
            )

    async def count_on(self, counters: Mapping[str, int]) -> None:
        """Have the numbers of new tasks begin behind this one; other keys begin behind those that are there."""
        now = await self.counters()
        if counters["task_seq"] > now["task_seq"]:
            put = text("INSERT OR REPLACE INTO meta (key, value) VALUES ('task_seq', :value)")
            self._connection.execute(put, {"value": str(counters["task_seq"])})


@asynccontextmanager
async def sqlite_source(url: URL) -> AsyncIterator[SqliteSource]:
    """Open a file to be read; raises `ValidationFailed` when it is not there, in use, or of another revision."""
    path = file_of(url)
    if not path.is_file():
        raise ValidationFailed(f"there is no database {path}")
    # Before it is locked too: a file that is refused gets no other beside it.
    with _connected(sqlite_reader(url).connect()) as connection:
        check_current(connection, str(path))
    with _alone(url), _connected(sqlite_reader(url).connect()) as connection:
        check_current(connection, str(path))
        yield SqliteSource(connection)


@asynccontextmanager
async def sqlite_destination(url: URL) -> AsyncIterator[SqliteDestination]:
    """Make a file, which is there at the end of the block, whole, or not at all when that raises or is killed.

    Raises `ValidationFailed` when there is one that is in use, or has rows, and for a link that leads to nothing.
    """
    path = file_of(url)
    making = path.with_name(path.name + UNFINISHED)
    # As with a source, before it is locked and with the lock.
    _check_own(url)
    with _alone(url):
        _check_own(url)
        if path.exists():
            with _connected(sqlite_reader(url).connect()) as connection:
                check_empty(connection, str(path))
        _remove(making)
        try:
            with _connected(sqlite_writer(url.set(database=str(making))).connect()) as connection:
                _prepare(connection)
                connection.exec_driver_sql("BEGIN")
                yield SqliteDestination(connection)
                connection.exec_driver_sql("COMMIT")
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            _put(making, path)
        finally:
            _remove(making)


def _check_own(url: URL) -> None:
    """Raise `ValidationFailed` when the file, which is replaced, is a link to nothing, has another's table or a log."""
    path = file_of(url)
    check_log(path)
    if not path.exists():
        if path.is_symlink():
            raise ValidationFailed(
                f"{path} is a link to {path.readlink()}, which can't be found: check that its disk is mounted, or"
                " remove the link"
            )
        return
    with _connected(sqlite_reader(url).connect()) as connection:
        others = set(inspect(connection).get_table_names()) - {*metadata.tables, "alembic_version"}
    if others:
        raise ValidationFailed(
            f"{path} has a table {min(others)} that is not Treadle's, and the copy would replace the whole file:"
            " nothing was changed, copy to a file of its own"
        )


def _prepare(connection: Connection) -> None:
    """Make the tables, and have rows written without the care that a file needs which is not thrown away."""
    connection.exec_driver_sql("BEGIN")
    upgrade(connection)
    connection.exec_driver_sql("COMMIT")
    for pragma in ("journal_mode=DELETE", "journal_mode=OFF", "synchronous=OFF", "foreign_keys=OFF"):
        connection.exec_driver_sql(f"PRAGMA {pragma}")


def _put(making: Path, path: Path) -> None:
    """Put a whole file into its place, so that it is there also when the power fails the next instant."""
    _sync(making)
    for side in SIDES:
        path.with_name(path.name + side).unlink(missing_ok=True)
    making.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(making: Path) -> None:
    for side in ("", *SIDES):
        making.with_name(making.name + side).unlink(missing_ok=True)


@contextmanager
def _connected(connection: Connection) -> Iterator[Connection]:
    """Close a connection at the end, and its engine with it."""
    try:
        yield connection
    finally:
        connection.close()
        connection.engine.dispose()


@contextmanager
def _alone(url: URL) -> Iterator[None]:
    """Keep servers from the file during the block; raises `ValidationFailed` when one uses it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(url))
        except DatabaseInUse:
            raise ValidationFailed(f"a server or another copy is using {url.database}: stop it first") from None
        yield

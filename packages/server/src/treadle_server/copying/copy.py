"""A copy of a whole database: table by table, in batches, then read again and compared."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy import URL, Table
from sqlalchemy.exc import DataError, IntegrityError

from treadle_server.copying.contents import TABLES, Row
from treadle_server.copying.databases import SAME, DestinationDatabase, SourceDatabase
from treadle_server.copying.digest import Digest, json_places
from treadle_server.copying.postgres import PostgresDatabase, postgres_destination, postgres_source, refresh
from treadle_server.copying.sqlite import sqlite_destination, sqlite_source
from treadle_server.errors import DatabaseIsNewer, SettingUnusable, StoreUnavailable, ValidationFailed
from treadle_server.store.failures import FAILURES_EXPLAINED, in_brief
from treadle_server.store.sqlite.places import file_of
from treadle_server.store.urls import parse_url, shown


@dataclass(frozen=True, slots=True)
class TableProgress:
    """How far a copy is."""

    doing: str
    """`copied` or `verified`."""
    table: str
    done: int
    total: int


Tell = Callable[[TableProgress], None]


@dataclass(slots=True)
class Copied:
    """What was copied: rows and checksums by table."""

    tables: dict[str, Digest] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Return how many rows there were in all."""
        return sum(digest.rows for digest in self.tables.values())


class NotTheSame(ValidationFailed):
    """What was read again is not what was copied: nothing of it was kept."""


async def copy_database(source: str, target: str, tell: Tell) -> Copied:
    """Copy one database to another, each `sqlite:///path` or `postgresql://…`, and return what was copied.

    Raises `SettingUnusable` when they are the same, `ValidationFailed` when a server runs on either, when the target is
    not empty or the source of another revision, `NotTheSame`, and `StoreUnavailable`. Then, and when it is killed,
    nothing is at the target.
    """
    from_url, to_url = parse_url(source), parse_url(target)
    _check_apart(from_url, to_url)
    of_source, of_target = partial(_failing, f"FROM ({shown(from_url)})"), partial(_failing, f"TO ({shown(to_url)})")
    with of_source():
        async with _source(from_url) as here:
            with of_target():
                async with _destination(to_url, here) as there:
                    copied = await _copy(here, there, tell, of_source)
                    await there.check()
                    await _verify(there, copied, tell)
                    with of_source():
                        counters = await here.counters()
                    await there.count_on(counters)
                if to_url.get_backend_name() == "postgresql":
                    await refresh(to_url)
    return copied


Failing = Callable[[], AbstractContextManager[None]]


class _OneUnavailable(StoreUnavailable):
    """One of the two databases does not answer; it says which."""


@contextmanager
def _failing(which: str) -> Iterator[None]:
    """Raise `StoreUnavailable` for errors of a database, with which one it is, unless they say so already."""
    try:
        with FAILURES_EXPLAINED:
            yield
    except (_OneUnavailable, DatabaseIsNewer):
        raise
    except StoreUnavailable as error:
        raise _OneUnavailable(f"{which}: {error.detail}") from error


async def _copy(here: SourceDatabase, there: DestinationDatabase, tell: Tell, of_source: Failing) -> Copied:
    copied = Copied()
    for table in TABLES:
        with of_source():
            total = await here.count(table)
        digest, places = Digest(), json_places(table)
        copied.tables[table.name] = digest
        tell(TableProgress("copied", table.name, 0, total))
        with _named(table):
            async for batch in _batches(here, table, of_source):
                digest.add(batch, places)
                await there.write(table, batch)
                tell(TableProgress("copied", table.name, digest.rows, total))
    return copied


@contextmanager
def _named(table: Table) -> Iterator[None]:
    """Raise `ValidationFailed` for a row that can't be read or written: SQLite keeps any value in any column."""
    try:
        yield
    except (TypeError, ValueError, OverflowError, IntegrityError, DataError) as error:
        raise ValidationFailed(
            f"{table.name} has an invalid row ({in_brief(error)}): it was changed by hand or is damaged;"
            " repair it, and copy again"
        ) from None


async def _verify(there: SourceDatabase, copied: Copied, tell: Tell) -> None:
    """Read the tables again; raises `NotTheSame`."""
    for table in TABLES:
        wanted, found = copied.tables[table.name], Digest()
        async for batch in _batches(there, table):
            found.add(batch, json_places(table))
            tell(TableProgress("verified", table.name, found.rows, wanted.rows))
        if found != wanted:
            raise NotTheSame(
                f"{table.name} differs when it is read back ({found.rows} rows with checksum {found}, not"
                f" {wanted.rows} with {wanted}): nothing was kept; please report this"
            )


async def _batches(place: SourceDatabase, table: Table, failing: Failing = nullcontext) -> AsyncIterator[list[Row]]:
    """Give what is copied of a table; between two batches Ctrl-C is heard, for SQLite's statements never wait."""
    with failing():
        async for batch in place.read(table):
            yield batch
            await asyncio.sleep(0)


def _source(url: URL) -> AbstractAsyncContextManager[SourceDatabase]:
    return sqlite_source(url) if url.get_backend_name() == "sqlite" else postgres_source(url)


def _destination(url: URL, source: SourceDatabase) -> AbstractAsyncContextManager[DestinationDatabase]:
    if url.get_backend_name() == "sqlite":
        return sqlite_destination(url)
    return postgres_destination(url, source=source if isinstance(source, PostgresDatabase) else None)


def _check_apart(one: URL, other: URL) -> None:
    if (
        one.get_backend_name() == other.get_backend_name() == "sqlite"
        and file_of(one).resolve() == file_of(other).resolve()
    ):
        raise SettingUnusable(SAME)

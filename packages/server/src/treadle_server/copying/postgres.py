"""PostgreSQL as a place of a copy: one transaction, under the locks that every server takes, to read or to write."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import URL, Table, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.copying.contents import Row, batched, check_empty, count_of, rows_of
from treadle_server.copying.databases import SAME
from treadle_server.errors import SettingUnusable, ValidationFailed
from treadle_server.services.leader import LOCK as LEADER
from treadle_server.store.connections import postgres_engine
from treadle_server.store.migrations import check_current, upgrade
from treadle_server.store.postgres.exclusive import LOCK as WRITER
from treadle_server.store.postgres.exclusive import UNLIMITED
from treadle_server.store.tables import SEQUENCES
from treadle_server.store.urls import shown

if TYPE_CHECKING:
    import asyncpg

PATIENCE = 5.0
"""Seconds for which the last connections of a server that has just been stopped may still end."""

AT_ONCE = 50
"""Rows that are read at once: each may be as long as a request."""

_BEGIN = (
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    UNLIMITED,
    f"SET LOCAL lock_timeout = '{PATIENCE:g}s'",
)

_SERVERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'treadle' AND pid <> pg_backend_pid()
"""

_GREATEST = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {}"

_WHICH = "SELECT pg_postmaster_start_time()::text || ' ' || current_database()"


class PostgresDatabase:
    """A database with an open transaction."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def count(self, table: Table) -> int:
        """Return how many rows of a table are copied."""
        return int((await self._connection.execute(count_of(table, "postgresql"))).scalar_one())

    async def read(self, table: Table) -> AsyncIterator[list[Row]]:
        """Give what is copied of a table, batch by batch."""
        found = await self._connection.stream(
            rows_of(table, "postgresql"), execution_options={"yield_per": AT_ONCE, "max_row_buffer": AT_ONCE}
        )
        async for batch in batched(aiter(found)):
            yield batch

    async def counters(self) -> Mapping[str, int]:
        """Return the greatest keys that were ever given."""
        found = {}
        for name, sequence in SEQUENCES.items():
            found[name] = int((await self._connection.execute(text(_GREATEST.format(sequence.name)))).scalar_one())
        return found

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        """Write rows of a table, each its values in the order of the columns, by COPY."""
        raw = await self._connection.get_raw_connection()
        driver = cast("asyncpg.Connection[Any]", raw.driver_connection)
        await driver.copy_records_to_table(
            table.name, records=[tuple(row) for row in rows], columns=table.columns.keys()
        )

    async def check(self) -> None:
        """Do nothing: PostgreSQL has looked at each row as it was written."""

    async def count_on(self, counters: Mapping[str, int]) -> None:
        """Have new keys begin behind these."""
        put = text("SELECT setval(CAST(:name AS text)::regclass, :value)")
        for name, value in counters.items():
            if value:
                await self._connection.execute(put, {"name": SEQUENCES[name].name, "value": value})

    async def which(self) -> str:
        """Return what tells this database from every other."""
        return str((await self._connection.execute(text(_WHICH))).scalar_one())


@asynccontextmanager
async def postgres_source(url: URL) -> AsyncIterator[PostgresDatabase]:
    """Open a database to be read; raises `ValidationFailed` when it is in use, or of another revision."""
    async with _alone(url) as connection:
        await connection.run_sync(check_current, name_of(url))
        yield PostgresDatabase(connection)


@asynccontextmanager
async def postgres_destination(url: URL, *, source: PostgresDatabase | None) -> AsyncIterator[PostgresDatabase]:
    """Make the tables of a database that has none, or none with rows; all of it is there at the end of the block.

    It is one transaction: when the block raises, or the process is killed, nothing was changed. Raises
    `ValidationFailed` when the database is in use or not empty, `SettingUnusable` when it is the `source`.
    """
    async with _alone(url, source=source) as connection:
        await connection.run_sync(check_empty, name_of(url))
        await connection.run_sync(upgrade)
        yield PostgresDatabase(connection)


async def refresh(url: URL) -> None:
    """Have the planner know the tables that were filled, before a server asks."""
    engine = postgres_engine(url, size=1)
    try:
        async with engine.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            await connection.execute(text("ANALYZE"))
    finally:
        await engine.dispose()


def name_of(url: URL) -> str:
    """Return what a database is called, without its password."""
    return f"the database {shown(url)}"


@asynccontextmanager
async def _alone(url: URL, *, source: PostgresDatabase | None = None) -> AsyncIterator[AsyncConnection]:
    """Open a transaction during which no server leads or writes; raises `ValidationFailed` when one runs."""
    engine = postgres_engine(url, size=1)
    try:
        async with engine.begin() as connection:
            for setting in _BEGIN:
                await connection.execute(text(setting))
            if source is not None and await source.which() == await PostgresDatabase(connection).which():
                raise SettingUnusable(SAME)
            await _check_servers(connection, url)
            try:
                await connection.execute(text(f"SELECT pg_advisory_xact_lock({WRITER})"))
            except DBAPIError as error:
                raise _in_use(url) from error
            yield connection
    finally:
        await engine.dispose()


async def _check_servers(connection: AsyncConnection, url: URL) -> None:
    """Take the leader's lock, and look whether anybody is connected as servers are; raises `ValidationFailed`."""
    until = monotonic() + PATIENCE
    while True:
        leads = (await connection.execute(text(f"SELECT pg_try_advisory_xact_lock({LEADER})"))).scalar_one()
        others = (await connection.execute(text(_SERVERS))).scalar_one()
        if leads and not others:
            return
        if monotonic() >= until:
            raise _in_use(url)
        await asyncio.sleep(0.1)
        # What it shows is kept within a transaction.
        await connection.execute(text("SELECT pg_stat_clear_snapshot()"))


def _in_use(url: URL) -> ValidationFailed:
    return ValidationFailed(f"a server or another copy is using {name_of(url)}: stop it first")

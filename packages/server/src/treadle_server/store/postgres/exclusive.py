"""Track whether a server is the only one that writes to its PostgreSQL: while it is, it may remember what it wrote.

A row of `meta` names the exclusive writer, or nobody. Each transaction takes a lock that all writers share, and then
checks that the row is as its server believes; to change the row, a server takes the lock exclusively. So the row can't
change while a transaction is open, and a server that others have joined finds out at the beginning of its next
transaction, before it has read or written anything. A server that finds another one's name there removes it: being the
exclusive writer is not a right, only a state that any other writer ends.

The row's value begins with the schema revision that its writer was made for. So a server whose database was migrated by
a newer one finds out in the same way, before it has read or written anything, and never writes again.
"""

from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from treadle_server.errors import DatabaseIsNewer, StoreUnavailable
from treadle_server.store.connections import WRITING
from treadle_server.store.migrations import HEAD, REVISIONS, newer_than_known
from treadle_server.store.tables import metadata

if TYPE_CHECKING:
    import asyncpg

LOCK = 7_420_003
"""The advisory lock that the transactions of all writers share."""

KEY = "sole_writer"
"""The row's key; older than the name "exclusive writer"."""

NOBODY = f"{HEAD}:"
"""The row's value when there is no exclusive writer."""

PATIENCE = "1s"
"""How long a server that seeks to be exclusive waits for others' transactions, while new ones queue behind it."""

LONGEST_JOIN = "60s"
"""How long a server that has to write waits for others' transactions, which may be migrations."""

HELD = (
    f"other servers have held the database's advisory lock {LOCK} for {LONGEST_JOIN}: one of them is migrating it, or"
    f" a transaction hangs. pg_locks has the pid (locktype 'advisory', objid {LOCK}); when that has ended, or was"
    " ended by pg_terminate_backend(pid), start this server again"
)

RESTORED = (
    "the database's table alembic_version is empty: it is being restored, or a restore was interrupted; nothing was"
    " changed, try again"
)

OLDER = (
    f"the database's schema is at revision {{}} now, not at {HEAD}: an older backup was restored; nothing was changed,"
    " start this server again, and it migrates the database"
)

UNLIMITED = """
SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('statement_timeout', 'transaction_timeout')
"""
"""Lifts the role's time limits for the transaction, which are meant for people's queries: a migration or a copy would
take no less time when retried. PostgreSQL has `transaction_timeout` from version 17 on."""

_SET = """
WITH updated AS (UPDATE meta SET value = $2 WHERE key = $1 RETURNING 1)
INSERT INTO meta (key, value) SELECT $1, $2 WHERE NOT EXISTS (SELECT FROM updated)
"""
"""Under the lock nobody else writes the row: it needs no key, which a table lacks that is being restored."""

_TABLES = """
SELECT array_agg(oid::regclass::text ORDER BY relname) FROM pg_class
 WHERE relname = ANY ($1) AND relkind = 'r' AND pg_table_is_visible(oid)
"""

SHOWN = "concat_ws(' ', value, pg_relation_filepath('meta'), extract(epoch FROM pg_postmaster_start_time()))"
"""What a server compares: the row's value, and of which table in which PostgreSQL. A dump that was restored, or a
standby that lacks the last commits, may have the same value, but not what was remembered."""

_SHOW = f"SELECT {SHOWN} FROM meta WHERE key = $1"  # noqa: S608 - the program's own


class ExclusiveWriter:
    """What this server believes about the exclusive writer."""

    def __init__(self) -> None:
        self._name = f"{NOBODY}{uuid4().hex}"
        self._is_exclusive = False
        self._shown = NOBODY
        """The row as this server saw it last; at first what it never is, so that it is looked at."""
        self._version = 0
        self.outdated: str | None = None
        """Why this server may no longer write: the database's schema is another version's."""

    @property
    def version(self) -> int | None:
        """Return a number that stays the same while nobody else writes; None when others may at any time."""
        return self._version if self._is_exclusive else None

    @property
    def believed(self) -> str:
        """Return the row as this server believes it to be, as `SHOWN` has it."""
        return self._shown

    @property
    def check(self) -> str:
        """Return SQL to begin a transaction with, which fails with a division by zero when the belief is wrong."""
        # Both are the program's own.
        named = f"coalesce((SELECT {SHOWN} FROM meta WHERE key = '{KEY}'), '')"  # noqa: S608
        return f"SELECT pg_advisory_xact_lock_shared({LOCK}); SELECT 1 / ({named} = '{self.believed}')::int;"

    async def look(self, driver: "asyncpg.Connection[Any]") -> None:
        """Read the row, outside of a transaction, and end another server's exclusive state.

        Raises `DatabaseIsNewer`, and `StoreUnavailable` as `join` does and while the database is being restored.
        """
        shown = await driver.fetchval(_SHOW, KEY) or ""
        if shown.partition(" ")[0] not in {self._name, NOBODY}:
            async with driver.transaction():
                await self.join(driver)
                await self._check_revision(driver)
                shown = await driver.fetchval(_SHOW, KEY)
        self._believe(shown)

    async def join(self, driver: "asyncpg.Connection[Any]") -> None:
        """Take the lock exclusively, in a transaction, and end any server's exclusive state.

        Raises `StoreUnavailable` when others keep the lock for longer than `LONGEST_JOIN`, and asyncpg's error when
        somebody keeps the row locked so long, or a table in a database that will be migrated.
        """
        import asyncpg

        await driver.execute(UNLIMITED)
        try:
            await driver.execute(f"SET LOCAL lock_timeout = '{LONGEST_JOIN}'; SELECT pg_advisory_xact_lock({LOCK})")
        except asyncpg.LockNotAvailableError:
            raise StoreUnavailable(HELD, retry_after=1) from None
        found = await self._revision(driver)
        if found in REVISIONS and found != HEAD:
            await self._await_tables(driver)
        if found in REVISIONS:
            await driver.execute(_SET, KEY, NOBODY)
        # A migration that follows has no limit for its own locks either.
        await driver.execute("SET LOCAL lock_timeout = 0")

    async def _await_tables(self, driver: "asyncpg.Connection[Any]") -> None:
        """Wait until nobody keeps a table locked that a migration may change, for `WRITING`'s time at most for each.

        Migrations wait for ever, so as not to copy in vain, and whoever reads or writes waits behind them: a dump, or a
        transaction that somebody left open, stopped everything, and no server said why.
        """
        await driver.execute(f"SET LOCAL lock_timeout = '{WRITING['lock_timeout']}'")
        # An older server's single-statement transaction locks its tables before it reads the row that is changed
        # next: the migration, which needs those tables too, would end as a deadlock after all its copying.
        await driver.execute("LOCK TABLE tasks IN EXCLUSIVE MODE")
        tables = await driver.fetchval(_TABLES, sorted(metadata.tables))
        # One after the other, since readers lock several in an order of their own.
        locked = (f"SAVEPOINT free; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; ROLLBACK TO free" for table in tables)
        await driver.execute("; ".join(locked))

    async def _revision(self, driver: "asyncpg.Connection[Any]") -> str | None:
        # Another program's tables may have the same names, and its `meta` other columns.
        there = "SELECT num_nulls(to_regclass('alembic_version'), to_regclass('tasks'), to_regclass('meta')) = 0"
        if not await driver.fetchval(there):
            return None
        return cast("str | None", await driver.fetchval("SELECT version_num FROM alembic_version"))

    async def seek(self, driver: "asyncpg.Connection[Any]") -> None:
        """Become the exclusive writer, outside of a transaction, unless others write all the time.

        The name is new each time, so that statements sent in an earlier belief are refused. Raises `DatabaseIsNewer`,
        and `StoreUnavailable` while the database is being restored.
        """
        import asyncpg

        name = f"{NOBODY}{uuid4().hex}"

        try:
            async with driver.transaction():
                await driver.execute(f"SET LOCAL lock_timeout = '{PATIENCE}'; SELECT pg_advisory_xact_lock({LOCK})")
                await self._check_revision(driver)
                await driver.execute(_SET, KEY, name)
                shown = await driver.fetchval(_SHOW, KEY)
        except asyncpg.LockNotAvailableError:
            return
        self._name = name
        self._believe(shown)

    async def _check_revision(self, driver: "asyncpg.Connection[Any]") -> None:
        """Check that the schema is still this server's, under the lock, which a migration takes too.

        Raises `StoreUnavailable` while it has no revision, and when an older backup was restored.
        """
        found = await driver.fetchval("SELECT version_num FROM alembic_version")
        if found is None:
            raise StoreUnavailable(RESTORED, retry_after=1)
        if found in REVISIONS and found != HEAD:
            self.outdated = OLDER.format(found)
            raise StoreUnavailable(self.outdated)
        if found != HEAD:
            self.outdated = newer_than_known(str(found))
            raise DatabaseIsNewer(self.outdated)

    def _believe(self, shown: str) -> None:
        self._shown = shown
        self._is_exclusive = shown.partition(" ")[0] == self._name
        self._version += 1

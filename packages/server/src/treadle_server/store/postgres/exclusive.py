"""Whether a server is the only one that writes to its PostgreSQL: as long as it is, it may remember what it wrote.

A row of `meta` names the exclusive writer, or nobody. Each transaction takes a lock that all writers share, and then
looks whether the row is as its server believes; who changes the row takes the lock for itself. So nothing can change it
while a transaction is open, and a server that others have joined finds out at the beginning of its next one, before it
has read or written anything. Whoever finds another server's name there takes it out: to be the exclusive writer is no
right, only a state that any other writer ends.

What the row says begins with the revision of the schema that its writer was made for. So a server whose database a
newer one has migrated finds out in the same way, before it has read or written anything, and never writes again.
"""

from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from treadle_server.errors import DatabaseIsNewer, StoreUnavailable
from treadle_server.store.migrations import HEAD, REVISIONS, newer_than_known

if TYPE_CHECKING:
    import asyncpg

LOCK = 7_420_003
"""The advisory lock that the transactions of all writers share."""

KEY = "sole_writer"
"""The row's key: databases have it since before the state had its present name."""

NOBODY = f"{HEAD}:"
"""What the row says when there is no exclusive writer."""

PATIENCE = "1s"
"""How long a server that would like to write exclusively waits for the others' transactions; they wait behind it."""

LONGEST_JOIN = "60s"
"""How long a server waits for the others' transactions where it has to write: a migration of theirs may be one."""

HELD = (
    f"other servers have held the database's advisory lock {LOCK} for {LONGEST_JOIN}: one of them is migrating it, or"
    f" a transaction hangs. pg_locks has the pid (locktype 'advisory', objid {LOCK}); when that has ended, or was"
    " ended by pg_terminate_backend(pid), start this server again"
)

UNLIMITED = """
SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('statement_timeout', 'transaction_timeout')
"""
"""Has the transaction last as long as it must, whatever the role's settings are for what people ask: a migration or a
copy is never shorter when it is tried again. PostgreSQL knows the second one from 17 on."""

_SET = """
WITH updated AS (UPDATE meta SET value = $2 WHERE key = $1 RETURNING 1)
INSERT INTO meta (key, value) SELECT $1, $2 WHERE NOT EXISTS (SELECT FROM updated)
"""
"""Under the lock nobody else writes the row: it needs no key, which a table lacks that is being restored."""


class ExclusiveWriter:
    """What this server believes of itself."""

    def __init__(self) -> None:
        self._name = f"{NOBODY}{uuid4().hex}"
        self._is_exclusive = False
        self._version = 0
        self.outdated: str | None = None
        """Why this server may not write to the database any more: a newer one has migrated it."""

    @property
    def version(self) -> int | None:
        """Return a number that stands as long as nobody else has written; None when others may at any time."""
        return self._version if self._is_exclusive else None

    @property
    def believed(self) -> str:
        """Return what the row says, as this server believes."""
        return self._name if self._is_exclusive else NOBODY

    @property
    def check(self) -> str:
        """Return what a transaction begins with: it fails with a division by zero when the belief is wrong."""
        # Both are the program's own.
        named = f"coalesce((SELECT value FROM meta WHERE key = '{KEY}'), '')"  # noqa: S608
        return f"SELECT pg_advisory_xact_lock_shared({LOCK}); SELECT 1 / ({named} = '{self.believed}')::int;"

    async def look(self, driver: "asyncpg.Connection[Any]") -> None:
        """Find out who the exclusive writer is, outside of a transaction; another one is it no more.

        Raises `DatabaseIsNewer`, and `StoreUnavailable` as `join`.
        """
        name = await driver.fetchval("SELECT value FROM meta WHERE key = $1", KEY)
        if name not in {self._name, NOBODY}:
            async with driver.transaction():
                await self.join(driver)
                await self._check_revision(driver)
        self._believe(is_exclusive=name == self._name)

    async def join(self, driver: "asyncpg.Connection[Any]") -> None:
        """Take the lock exclusively, and let nobody be the exclusive writer; within a transaction.

        Raises `StoreUnavailable` when others keep the lock for longer than `LONGEST_JOIN`.
        """
        import asyncpg

        await driver.execute(UNLIMITED)
        try:
            await driver.execute(f"SET LOCAL lock_timeout = '{LONGEST_JOIN}'; SELECT pg_advisory_xact_lock({LOCK})")
        except asyncpg.LockNotAvailableError:
            raise StoreUnavailable(HELD, retry_after=1) from None
        # A migration, which may follow, waits for its own locks as long as it must too.
        await driver.execute("SET LOCAL lock_timeout = 0")
        found = await self._revision(driver)
        if found not in REVISIONS:
            return
        if found != HEAD:
            # An older server's statement that stands alone has its tables before it looks at the row that is changed
            # below: the migration, which wants the tables too, would be ended as a deadlock after all that it copied.
            await driver.execute("LOCK TABLE tasks IN EXCLUSIVE MODE")
        await driver.execute(_SET, KEY, NOBODY)

    async def _revision(self, driver: "asyncpg.Connection[Any]") -> str | None:
        # Another program may have noted a revision of the same name, and have a table `meta` of other columns.
        there = "SELECT num_nulls(to_regclass('alembic_version'), to_regclass('tasks'), to_regclass('meta')) = 0"
        if not await driver.fetchval(there):
            return None
        return cast("str | None", await driver.fetchval("SELECT version_num FROM alembic_version"))

    async def seek(self, driver: "asyncpg.Connection[Any]") -> None:
        """Become the exclusive writer, outside of a transaction, unless somebody writes all the time.

        Under another name each time: what is sent in the belief of an earlier one is not taken for what is known now.
        Raises `DatabaseIsNewer`.
        """
        import asyncpg

        name = f"{NOBODY}{uuid4().hex}"

        try:
            async with driver.transaction():
                await driver.execute(f"SET LOCAL lock_timeout = '{PATIENCE}'; SELECT pg_advisory_xact_lock({LOCK})")
                await self._check_revision(driver)
                await driver.execute(_SET, KEY, name)
        except asyncpg.LockNotAvailableError:
            return
        self._name = name
        self._believe(is_exclusive=True)

    async def _check_revision(self, driver: "asyncpg.Connection[Any]") -> None:
        """Look whether the schema is still that of this server, under the lock, which a migration takes too."""
        found = await driver.fetchval("SELECT version_num FROM alembic_version")
        if found != HEAD:
            self.outdated = newer_than_known(str(found))
            raise DatabaseIsNewer(self.outdated)

    def _believe(self, *, is_exclusive: bool) -> None:
        self._is_exclusive = is_exclusive
        self._version += 1

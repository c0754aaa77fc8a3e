"""What a server does whose PostgreSQL a newer one has migrated: it writes no more, says why, and ends (G11)."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from tests.chaos.processes import ServerProcess
from tests.conftest import _database_of, _postgres_database
from treadle_server.errors import DatabaseIsNewer, StoreUnavailable
from treadle_server.store.migrations import HEAD
from treadle_server.store.postgres.exclusive import KEY, LOCK, NOBODY
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import meta

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

PATIENCE = 60.0
"""Seconds that a server may take to notice, on a busy machine."""


async def _asked(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            for statement in statements:
                await connection.execute(statement)
    finally:
        await connection.close()


async def migrate_further(url: str) -> None:
    """Do to a database what a newer server does when it starts."""
    await _asked(
        url,
        f"SELECT pg_advisory_xact_lock({LOCK})",
        "UPDATE alembic_version SET version_num = '9999'",
        f"INSERT INTO meta VALUES ('{KEY}', '9999:') ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    )


@pytest.fixture
def own_database(postgres_url: str, postgres_template: str) -> Iterator[str]:
    """The URL of a database that no other test is given: it can't be used again."""
    with _postgres_database(postgres_url, postgres_template) as name:
        yield _database_of(postgres_url, name)


@pytest.fixture
async def store(own_database: str) -> AsyncIterator[SqlStore]:
    store = SqlStore(own_database)
    await store.open()
    yield store
    await store.close()


@pytest.mark.parametrize("is_exclusive", [True, False], ids=["exclusive", "several"])
async def test_a_server_whose_database_a_newer_one_migrated_writes_no_more(store, own_database, is_exclusive) -> None:
    if is_exclusive:
        await store.seek_exclusive()
    async with store.write() as tx:
        await tx.connection.execute(meta.insert().values(key="before", value="kept"))
    await migrate_further(own_database)

    for _ in range(2):
        with pytest.raises(DatabaseIsNewer, match=f"revision 9999, but this server knows only those up to {HEAD}"):
            async with store.write() as tx:
                await tx.connection.execute(meta.insert().values(key="after", value="damage"))
        if not is_exclusive:
            with pytest.raises(DatabaseIsNewer):
                await store.seek_exclusive()
    assert store.outdated is not None
    async with store.read() as connection:
        assert set((await connection.execute(meta.select())).scalars()) >= {"before", KEY}
        assert "after" not in (await connection.execute(meta.select())).scalars()


@pytest.mark.parametrize("is_exclusive", [True, False], ids=["exclusive", "several"])
async def test_a_server_whose_database_is_being_restored_waits_for_its_revision(
    store, own_database, is_exclusive
) -> None:
    """`pg_restore --clean` fills the tables after it has made them: the server ended, as of a newer version."""
    if is_exclusive:
        await store.seek_exclusive()
    await _asked(own_database, "DELETE FROM alembic_version", f"DELETE FROM meta WHERE key = '{KEY}'")

    with pytest.raises(StoreUnavailable, match="being restored, or a restore was interrupted"):
        async with store.write():
            pass
    if not is_exclusive:
        with pytest.raises(StoreUnavailable, match="being restored"):
            await store.seek_exclusive()

    assert store.outdated is None
    await _asked(own_database, f"INSERT INTO alembic_version VALUES ('{HEAD}')")
    async with store.write():
        pass


async def test_a_server_under_which_an_older_backup_was_restored_says_so(store, own_database) -> None:
    """It told of a newer version, which there is not."""
    async with store.write():
        pass
    await _asked(
        own_database,
        "UPDATE alembic_version SET version_num = '0019'",
        f"UPDATE meta SET value = '0019:' WHERE key = '{KEY}'",
    )

    with pytest.raises(StoreUnavailable, match=r"at revision 0019 now, not .*: an older backup was restored"):
        async with store.write():
            pass

    assert store.outdated is not None
    assert "start this server again" in store.outdated


@pytest.mark.parametrize(
    "name", ["", "0123456789abcdef0123456789abcdef"], ids=["takes the name out", "puts its own in"]
)
async def test_a_server_that_knows_no_revisions_can_begin_no_transaction(store, own_database, name) -> None:
    """Those up to 0018 write one of these before the first transaction in which they find other writers."""
    async with store.write():
        pass

    with pytest.raises(asyncpg.CheckViolationError, match="a_newer_treadle_server_has_migrated_this_database"):
        await _asked(own_database, f"UPDATE meta SET value = '{name}' WHERE key = '{KEY}'")

    async with store.read() as connection:
        assert (await connection.execute(meta.select().where(meta.c.key == KEY))).one().value == NOBODY


async def test_a_server_that_runs_while_a_newer_one_migrates_ends_with_a_sentence(own_database, tmp_path) -> None:
    server = ServerProcess(tmp_path, own_database)
    await asyncio.to_thread(server.start)
    try:
        await migrate_further(own_database)

        async with asyncio.timeout(PATIENCE):
            assert await server.ended() == 1
    finally:
        if not server.has_ended:
            server.kill()
    said = server.log.read_text()
    assert "a newer one has migrated it" in said
    assert "Traceback" not in said
    with pytest.raises(RuntimeError, match="a newer one has migrated it"):
        await asyncio.to_thread(server.start)

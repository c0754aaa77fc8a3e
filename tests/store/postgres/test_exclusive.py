"""The exclusive writer of a PostgreSQL: what it remembers stands until another server writes."""

import asyncio
import random
from collections.abc import AsyncIterator

import asyncpg
import pytest
import sqlalchemy as sa

from tests.stores import opened
from treadle_server.errors import StoreUnavailable
from treadle_server.store import connections
from treadle_server.store import store as stores_own
from treadle_server.store.connections import WRITING
from treadle_server.store.postgres import exclusive, writer
from treadle_server.store.postgres.exclusive import KEY, LOCK, ExclusiveWriter
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import meta

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

PATIENCE = 20.0
"""Seconds within which a loaded machine does what takes milliseconds."""

NUMBER = sa.select(meta.c.value).where(meta.c.key == "number")


@pytest.fixture
async def stores(postgres_database: str) -> AsyncIterator[list[SqlStore]]:
    """Three servers' stores, of which none is the exclusive writer, and a number that all of them change."""
    async with opened(postgres_database, 3) as found:
        async with found[0].write() as tx:
            await tx.connection.execute(meta.insert().values(key="number", value="0"))
        yield found


async def version_of(store: SqlStore) -> int | None:
    async with store.write() as tx:
        return tx.version


async def test_who_finds_the_lock_kept_for_too_long_says_what_to_do(
    stores: list[SqlStore], postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusive, "LONGEST_JOIN", "50ms")
    store, holder = SqlStore(postgres_database), await asyncpg.connect(postgres_database)
    try:
        async with holder.transaction():
            await holder.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
            with pytest.raises(StoreUnavailable, match="one of them is migrating it, or a transaction hangs"):
                await store.open()

        # A migration follows, and waits for its own locks as long as it must.
        async with holder.transaction():
            await ExclusiveWriter().join(holder)
            assert await holder.fetchval("SHOW lock_timeout") == "0"
        await store.open()
        async with store.write() as tx:
            found = (await tx.connection.execute(sa.text("SHOW lock_timeout"))).scalar_one()
            assert found == WRITING["lock_timeout"]
    finally:
        await holder.close()
        await store.close()


@pytest.mark.parametrize("table", ["tasks", "schedules"])
async def test_no_server_migrates_while_somebody_keeps_a_table_locked(
    old_url: str, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """As a dump does: the migration waited for ever without a word, and all that read or wrote waited behind it."""
    store = SqlStore(old_url)
    await store.open()
    async with store.write() as tx:
        await tx.connection.execute(sa.text("UPDATE alembic_version SET version_num = '0032'"))
    await store.close()
    monkeypatch.setitem(WRITING, "lock_timeout", "100ms")
    holder = await asyncpg.connect(old_url)
    try:
        async with holder.transaction():
            await holder.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")

            with pytest.raises(StoreUnavailable, match=r"^another session holds a lock .*; nothing was changed"):
                await store.open()

            assert await holder.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") == 0
        async with holder.transaction():
            await ExclusiveWriter().join(holder)  # nor does it keep a lock that readers need
            reader = await asyncpg.connect(old_url)
            await reader.fetch(f"SELECT FROM {table}")
            await reader.close()
    finally:
        await holder.close()
        await store.close()


@pytest.mark.parametrize("locking", ["LOCK TABLE alembic_version", "SELECT FROM meta FOR UPDATE"])
async def test_a_start_beside_somebody_who_keeps_a_lock_says_so(
    stores: list[SqlStore], postgres_database: str, monkeypatch: pytest.MonkeyPatch, locking: str
) -> None:
    """As a transaction that was left open does: a server waited for ever for the row, without a word."""
    async with stores[0].write():
        pass  # the row is there
    monkeypatch.setattr(exclusive, "LONGEST_JOIN", "50ms")
    store, holder = SqlStore(postgres_database), await asyncpg.connect(postgres_database)
    try:
        async with holder.transaction():
            await holder.execute(locking)

            with pytest.raises(StoreUnavailable, match=r"^another session holds a lock .*; nothing was changed"):
                await store.open()

        await store.open()
    finally:
        await holder.close()
        await store.close()


SLEEP = sa.text("SELECT pg_sleep(1.2)")


@pytest.mark.parametrize("setting", ["statement_timeout", "transaction_timeout"])
async def test_what_a_role_may_ask_for_at_most_ends_no_migration(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """A database large enough for one to take longer could not be brought up to date, however often it was tried."""
    admin = await asyncpg.connect(postgres_database)
    name = await admin.fetchval("SELECT current_database()")
    if not await admin.fetchval("SELECT count(*) FROM pg_settings WHERE name = $1", setting):
        setting = "statement_timeout"  # PostgreSQL has the other one from 17 on
    await admin.execute(f'ALTER DATABASE "{name}" SET {setting} = 1000')
    monkeypatch.setattr(stores_own, "upgrade", lambda connection: connection.execute(SLEEP))
    store = SqlStore(postgres_database)
    try:
        await store.open()

        async with store.write() as tx:
            assert (await tx.connection.execute(sa.text(f"SHOW {setting}"))).scalar_one() == "1s"
        if setting == "statement_timeout":
            with pytest.raises(StoreUnavailable, match=r"check the statement_timeout .*; nothing was changed"):
                async with store.read() as connection:
                    await connection.execute(SLEEP)
    finally:
        await admin.execute(f'ALTER DATABASE "{name}" RESET ALL')
        await admin.close()
        await store.close()


COUNT = sa.text("SELECT count(*) FROM tasks")

LOCKED = r"another session holds a lock .* pg_locks .* nothing was changed, try again$"


@pytest.mark.parametrize("is_pooled", [False, True], ids=["direct", "pooled"])
async def test_who_keeps_a_table_locked_is_waited_for_and_then_told_of_t8(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch, is_pooled: bool
) -> None:
    """A transaction that somebody left open in psql: batches waited behind it for ever, and said nothing."""
    for settings in (connections._READING, connections._POSTGRES, WRITING):
        assert settings["lock_timeout"] == "15s"
        monkeypatch.setitem(settings, "lock_timeout", "100ms")
    monkeypatch.setattr(writer, "BEGIN_POOLED", writer.BEGIN_POOLED.replace("15s", "100ms"))
    store, stranger = SqlStore(postgres_database, is_pooled=is_pooled), await asyncpg.connect(postgres_database)
    await store.open()
    try:
        async with stranger.transaction(), asyncio.timeout(PATIENCE):
            await stranger.execute("LOCK TABLE tasks")
            with pytest.raises(StoreUnavailable, match=LOCKED):
                async with store.read() as connection:
                    await connection.execute(COUNT)
            with pytest.raises(StoreUnavailable, match=LOCKED):
                async with store.write() as tx:
                    await tx.connection.execute(COUNT)

        async with store.write() as tx:
            await tx.connection.execute(COUNT)
    finally:
        await stranger.close()
        await store.close()


async def test_nobody_is_the_exclusive_writer_unless_it_asked_to_be(stores) -> None:
    assert [await version_of(store) for store in stores] == [None] * 3


async def test_what_the_exclusive_writer_knows_stands_until_another_writes_g11(stores) -> None:
    one, other, _ = stores
    await one.seek_exclusive()
    version = await version_of(one)
    assert version is not None
    assert await version_of(one) == version

    assert await version_of(other) is None
    assert await version_of(one) is None

    await one.seek_exclusive()
    assert await version_of(one) not in {None, version}


async def test_a_server_that_only_starts_ends_the_time_of_an_exclusive_writer_g11(stores, postgres_database) -> None:
    await stores[0].seek_exclusive()
    assert await version_of(stores[0]) is not None
    late = SqlStore(postgres_database)
    await late.open()
    await late.close()

    assert await version_of(stores[0]) is None


async def test_nobody_writes_while_the_exclusive_writers_transaction_is_open_g11(stores) -> None:
    one, other, _ = stores
    await one.seek_exclusive()
    async with one.write() as tx:
        assert tx.is_exclusive
        waiting = asyncio.ensure_future(version_of(other))
        await waits_for_the_lock(tx)
        assert not waiting.done()

    assert await waiting is None


async def waits_for_the_lock(tx) -> None:
    waits = sa.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = :lock AND NOT granted")
    async with asyncio.timeout(20):
        while not (await tx.connection.execute(waits, {"lock": LOCK})).scalar():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)


async def test_a_server_that_waits_in_vain_goes_on_as_one_of_several(stores, monkeypatch) -> None:
    monkeypatch.setattr("treadle_server.store.postgres.exclusive.PATIENCE", "10ms")
    one, other, _ = stores
    async with other.write():
        await one.seek_exclusive()

    assert await version_of(one) is None


@pytest.mark.parametrize("is_pooled", [False, True])
async def test_each_transaction_has_the_settings_of_a_writer(stores, postgres_database, is_pooled) -> None:
    store = SqlStore(postgres_database, is_pooled=is_pooled)
    found = {}

    for _ in range(2):
        async with store.write() as tx:
            for name in WRITING:
                found[name] = (await tx.connection.exec_driver_sql(f"SHOW {name}")).scalar()

    await store.close()
    assert found == WRITING


async def test_a_writer_that_stands_still_in_a_transaction_is_cut_off_g11(stores) -> None:
    one, other, _ = stores
    await one.seek_exclusive()

    with pytest.raises(StoreUnavailable):
        async with one.write() as tx:
            assert tx.is_exclusive
            # Ten seconds otherwise.
            await tx.connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = '100ms'")
            assert await version_of(other) is None
            await tx.connection.execute(NUMBER)
    assert await version_of(one) is None


async def test_who_believes_too_much_without_end_says_so(stores, monkeypatch) -> None:
    async def learns_nothing(*_: object) -> None: ...

    await stores[0].seek_exclusive()
    await version_of(stores[1])
    monkeypatch.setattr(ExclusiveWriter, "look", learns_nothing)

    with pytest.raises(StoreUnavailable, match="other servers"):
        await version_of(stores[0])


async def test_the_row_may_be_removed_by_hand(stores, postgres_database) -> None:
    await stores[0].seek_exclusive()
    connection = await asyncpg.connect(postgres_database)
    await connection.execute("DELETE FROM meta WHERE key = $1", KEY)
    await connection.close()

    assert await version_of(stores[0]) is None


async def test_nothing_is_remembered_of_a_table_that_was_restored(stores, postgres_database) -> None:
    """Its row names the same server: tasks of a job that it lacked were put into the queue of another one."""
    await stores[0].seek_exclusive()
    version = await version_of(stores[0])
    connection = await asyncpg.connect(postgres_database)
    await connection.execute("VACUUM FULL meta")  # which makes another table of it
    await connection.close()

    assert await version_of(stores[0]) not in {None, version}


class Counts:
    """A server that counts a number up, and reads it only when somebody else may have changed it."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.known: tuple[int | None, int] = (None, 0)
        self.remembered = 0

    async def count(self) -> None:
        async with self.store.write() as tx:
            if tx.is_exclusive and self.known[0] == tx.version:
                self.remembered += 1
                number = self.known[1]
            else:
                number = int((await tx.connection.execute(NUMBER.with_for_update())).scalar_one())
            changed = meta.update().where(meta.c.key == "number")
            await tx.connection.execute(changed.values(value=str(number + 1)))
        self.known = (tx.version, number + 1)


async def test_nothing_that_is_remembered_is_stale_however_servers_come_and_go_g11(stores) -> None:
    """Each writes now and then what it remembers plus one: not one of the steps is lost."""
    dice = random.Random(11)
    servers = [Counts(store) for store in stores]

    async def run(server: Counts, steps: int) -> None:
        for _ in range(steps):
            if dice.random() < 0.2:
                await server.store.seek_exclusive()
            for _ in range(dice.randrange(1, 6)):
                await server.count()

    async def total() -> int:
        async with stores[0].read() as connection:
            return int((await connection.execute(NUMBER)).scalar_one())

    made = 0
    count = Counts.count

    async def counted(self: Counts) -> None:
        nonlocal made
        await count(self)
        made += 1

    for server in servers:
        server.count = counted.__get__(server)  # type: ignore[method-assign]
    await asyncio.gather(*[run(server, 40) for server in servers])
    for server in servers:
        await run(server, 20)

    assert await total() == made
    assert all(server.remembered for server in servers)

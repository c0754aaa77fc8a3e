"""A batch that is one statement: it looks itself at what it must change, and at what its server believes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta

import asyncpg
import pytest
from sqlalchemy.exc import IntegrityError

from treadle_server.errors import StoreUnavailable
from treadle_server.store.base import LostUpdate
from treadle_server.store.postgres import writer
from treadle_server.store.postgres.changes import Change, Part
from treadle_server.store.postgres.connection import DirectConnection
from treadle_server.store.postgres.exclusive import KEY, NOBODY
from treadle_server.store.store import SqlStore

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def store(postgres_database: str) -> AsyncIterator[SqlStore]:
    """The store of a server that alone writes."""
    async with AsyncExitStack() as stack:
        store = SqlStore(postgres_database)
        await store.open()
        stack.push_async_callback(store.close)
        await store.seek_exclusive()
        yield store


@pytest.fixture
async def other(postgres_database: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(postgres_database)
    yield connection
    await connection.close()


async def at_once() -> None:
    """Let what is asked of the database be asked."""


PUT = "INSERT INTO meta (key, value) SELECT name, '' FROM unnest($1::text[]) AS name"
CHANGED = "UPDATE meta SET value = 'changed' WHERE key = ANY ($1::text[])"


def part(names: Sequence[str], sql: str = PUT, name: str = "put") -> Part:
    return Part(name, sql, (list(names),), len(names))


def numbered(*parts: Part) -> Change:
    return Change(parts, frozenset({1}))


async def do(store: SqlStore, change: Change, *, is_begun: bool = False) -> None:
    """Do the change: in a transaction that is begun, or by a statement that stands alone."""
    async with store.write(after=at_once) as tx:
        direct = tx.connection
        assert isinstance(direct, DirectConnection)
        if is_begun:
            await direct.fetch("SELECT 1")
        direct.postpone(change)
        assert tx.has_begun() == is_begun


async def kept(other: "asyncpg.Connection[asyncpg.Record]") -> dict[str, str]:
    rows = await other.fetch("SELECT key, value FROM meta WHERE key LIKE 'test%'")
    return {row["key"]: row["value"] for row in rows}


async def waiting(database: str, text: str) -> int:
    """Return the process of the backend that waits for a lock with a statement of this text, once there is one."""
    found = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'"
    connection = await asyncpg.connect(database)
    try:
        async with asyncio.timeout(20):
            while (pid := await connection.fetchval(found, text)) is None:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0)
            return int(pid)
    finally:
        await connection.close()


@pytest.mark.parametrize("is_begun", [False, True], ids=["alone", "in a transaction"])
async def test_a_change_of_several_parts_is_done_as_one(store, other, is_begun) -> None:
    await do(store, numbered(part(["test 1", "test 2"])), is_begun=is_begun)
    await do(store, numbered(part(["test 3"]), part(["test 1"], CHANGED, "changed")), is_begun=is_begun)

    assert await kept(other) == {"test 1": "changed", "test 2": "", "test 3": ""}


async def test_a_change_that_stands_alone_begins_no_transaction(store, monkeypatch) -> None:
    async def begun(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(writer.PostgresWriter, "_begin", begun)

    await do(store, numbered(part(["test 1"])))
    with pytest.raises(AssertionError):
        await do(store, numbered(part(["test 2"])), is_begun=True)


@pytest.mark.parametrize("is_begun", [False, True], ids=["alone", "in a transaction"])
async def test_a_change_that_does_not_change_what_it_was_to_change_changes_nothing_g3(store, other, is_begun) -> None:
    await do(store, numbered(part(["test 1"])))

    with pytest.raises(LostUpdate):
        await do(store, numbered(part(["test 2"]), part(["test 1", "gone"], CHANGED, "changed")), is_begun=is_begun)
    with pytest.raises(IntegrityError):
        await do(store, numbered(part(["test 3", "test 1"])), is_begun=is_begun)

    assert await kept(other) == {"test 1": ""}


@pytest.mark.parametrize("what", ["another writes", "another table", "another time"])
async def test_who_writes_and_what_time_it_is_must_be_as_believed_where_a_change_stands_alone_g11(
    store, other, monkeypatch, what
) -> None:
    if what == "another writes":
        await other.execute("UPDATE meta SET value = $2 WHERE key = $1", KEY, NOBODY)
    elif what == "another table":
        await other.execute("VACUUM FULL meta")
    else:
        shown = store.clock.now
        monkeypatch.setattr(store.clock, "now", lambda: shown() + timedelta(minutes=1))

    with pytest.raises(LostUpdate):
        await do(store, numbered(part(["test 1"])))

    assert await kept(other) == {}


async def test_a_change_that_began_before_another_came_to_write_is_not_done_g11(
    store, other, postgres_database
) -> None:
    """What its statement sees is older than the other's commit; the row that says who writes is read as it is."""
    async with other.transaction():
        await other.execute("UPDATE meta SET value = $2 WHERE key = $1", KEY, NOBODY)
        done = asyncio.ensure_future(do(store, numbered(part(["test 1"]))))
        await waiting(postgres_database, "WITH put")

    with pytest.raises(LostUpdate):
        await done
    assert await kept(other) == {}


async def test_a_change_that_began_before_its_server_wrote_alone_again_is_not_done_g11(
    store, other, postgres_database
) -> None:
    """Others came and went meanwhile: what was believed of the queue is not known to be so."""
    await other.execute("CREATE TABLE test_gate (n int)")
    async with other.transaction():
        await other.execute("LOCK TABLE test_gate")
        gate = Part("gate", "INSERT INTO test_gate SELECT * FROM unnest($1::int[])", ([1],), 1)
        done = asyncio.ensure_future(do(store, numbered(gate, part(["test 1"]))))
        await waiting(postgres_database, "WITH gate")  # as a statement locks its tables before it looks at any row
        await joined(postgres_database)
        async with store.write():
            pass  # finds out
        await store.seek_exclusive()

    with pytest.raises(LostUpdate):
        await done
    assert await kept(other) == {}
    await other.execute("DROP TABLE test_gate")


async def test_who_would_write_too_waits_for_a_change_that_stands_alone_g11(store, other, postgres_database) -> None:
    held = other.transaction()
    await held.start()
    await other.execute("INSERT INTO meta (key, value) VALUES ('test 1', 'held')")
    done = asyncio.ensure_future(do(store, numbered(part(["test 1"]))))
    await waiting(postgres_database, "WITH put")
    joins = asyncio.ensure_future(joined(postgres_database))
    await waiting(postgres_database, "WITH updated")

    await held.rollback()

    await done
    assert await joins == {"test 1": ""}, "it sees what was written before it came"


async def joined(database: str) -> dict[str, str]:
    """Come to write as another server, and return what is kept."""
    store = SqlStore(database)
    async with store.write() as tx:
        driver = tx.connection
        assert isinstance(driver, DirectConnection)
        rows = await driver.fetch("SELECT key, value FROM meta WHERE key LIKE 'test%'")
    await store.close()
    return {row[0]: row[1] for row in rows}


async def test_who_has_nothing_to_write_waits_for_what_comes_before_g1(store) -> None:
    async def fails() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        async with store.write(after=fails):
            pass


async def test_plans_that_are_old_are_made_anew_in_a_transaction(store, other, monkeypatch) -> None:
    await do(store, numbered(part(["test 1"])))
    monkeypatch.setattr(writer, "PLANS_LAST", 0.0)

    await do(store, numbered(part(["test 2"])))

    assert await kept(other) == {"test 1": "", "test 2": ""}


async def test_whether_a_change_was_done_whose_connection_broke_is_not_known_g1(
    store, other, postgres_database
) -> None:
    async with other.transaction():
        await other.execute("LOCK TABLE meta")
        done = asyncio.ensure_future(do(store, numbered(part(["test 1"]))))
        pid = await waiting(postgres_database, "WITH put")
        await other.execute("SELECT pg_terminate_backend($1)", pid)

    with pytest.raises(StoreUnavailable, match="whether it was done is unknown"):
        await done


async def test_a_host_that_takes_no_writes_any_more_is_told_from_one_where_others_wrote(store, other) -> None:
    [name] = await other.fetchrow("SELECT current_database()")
    await other.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    await store._writer.close()  # type: ignore[union-attr]
    try:
        with pytest.raises(LostUpdate):
            await do(store, numbered(part(["test 1"])))
    finally:
        # The next test has the same database.
        await other.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')

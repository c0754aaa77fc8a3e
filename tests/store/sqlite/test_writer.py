"""SQLite's writer: one transaction at a time, patient with other processes, and never half done."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from tests.waiting import turns
from treadle_server.errors import StoreUnavailable
from treadle_server.store import connections
from treadle_server.store.sqlite import writer
from treadle_server.store.store import SqlStore

pytestmark = pytest.mark.anyio

INSERT = "INSERT INTO meta (key, value) VALUES ('{}', 'x')"


async def keys(store: SqlStore) -> set[str]:
    async with store.read() as connection:
        return set((await connection.exec_driver_sql("SELECT key FROM meta")).scalars())


async def test_transactions_follow_one_another(sqlite) -> None:
    async def write(key: str) -> None:
        async with sqlite.write() as tx:
            await tx.connection.exec_driver_sql(INSERT.format(key))
            await asyncio.sleep(0)

    await asyncio.gather(*[write(f"k{n}") for n in range(20)])

    assert len(await keys(sqlite)) == 20


async def test_what_raises_is_rolled_back(sqlite) -> None:
    with pytest.raises(ValueError, match="enough"):
        async with sqlite.write() as tx:
            await tx.connection.exec_driver_sql(INSERT.format("k"))
            raise ValueError("enough")

    assert await keys(sqlite) == set()


@pytest.mark.parametrize(("rows", "is_aside"), [(9, False), (10, True)])
async def test_many_rows_are_committed_aside_however_quick_the_disk_is_n3(sqlite, monkeypatch, rows, is_aside) -> None:
    monkeypatch.setattr(writer, "LARGE", 10, raising=False)
    aside = []
    inner = sqlite._writer._commit_on_thread

    async def noted(commit) -> None:
        aside.append(commit)
        await inner(commit)

    monkeypatch.setattr(sqlite._writer, "_commit_on_thread", noted)
    async with sqlite.write() as tx:
        for n in range(rows):
            await tx.connection.exec_driver_sql(INSERT.format(f"k{n}"))

    assert len(aside) == is_aside
    assert len(await keys(sqlite)) == rows


async def test_a_log_that_a_long_reader_has_let_grow_is_cut_when_it_has_left(tmp_path, monkeypatch) -> None:
    """It kept gigabytes of the disk until the server was restarted."""
    [limit] = [one for one in connections._WRITER if "journal_size_limit" in one]
    small = {limit: "PRAGMA journal_size_limit=100000", "PRAGMA wal_autocheckpoint=4000": "PRAGMA wal_autocheckpoint=9"}
    monkeypatch.setattr(connections, "_WRITER", tuple(small.get(one, one) for one in connections._WRITER))
    path = tmp_path / "treadle.db"
    store = SqlStore(f"sqlite:///{path}")
    await store.open()

    async def write(value: str) -> int:
        async with store.write() as tx:
            await tx.connection.exec_driver_sql(f"UPDATE meta SET value = '{value}'")
        return path.with_name("treadle.db-wal").stat().st_size

    async with store.write() as tx:
        await tx.connection.exec_driver_sql(INSERT.format("k"))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM meta").fetchall()
        grown = [await write(f"{n}" * 20_000) for n in range(30)]
    cut = [await write(f"{n}") for n in range(3)]

    await store.close()
    assert grown[-1] > 500_000
    assert cut[-1] <= 100_000


async def test_a_database_that_another_process_has_locked_is_asked_for_again_z9(sqlite, tmp_path) -> None:
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(_write(sqlite))
    await turns(5)
    assert not waiting.done()

    other.execute("COMMIT")
    other.close()

    async with asyncio.timeout(20):
        await waiting
    assert await keys(sqlite) == {"k"}


async def _write(store: SqlStore) -> None:
    async with store.write() as tx:
        await tx.connection.exec_driver_sql(INSERT.format("k"))


async def test_a_database_that_stays_locked_is_unavailable_with_retry_after_z9(sqlite, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(writer, "FIRST_PAUSE", 0.0)
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailable, match="locked") as refused:
        await _write(sqlite)

    other.close()
    assert refused.value.retry_after
    assert await keys(sqlite) == set()


async def test_a_cancelled_caller_waits_for_the_commit_that_it_has_begun(sqlite) -> None:
    begun = asyncio.Event()

    async def write() -> None:
        async with sqlite.write() as tx:
            await tx.connection.exec_driver_sql(INSERT.format("k"))
            begun.set()

    writing = asyncio.ensure_future(write())
    await begun.wait()
    writing.cancel()
    outcome = await asyncio.gather(writing, return_exceptions=True)

    committed = await keys(sqlite) == {"k"}
    assert committed
    assert outcome[0] is None or isinstance(outcome[0], asyncio.CancelledError)


@pytest.mark.parametrize("count", [1, writer.MOST_TOGETHER, 2 * writer.MOST_TOGETHER + 1])
async def test_an_update_of_many_rows_together_changes_each_and_counts_those_that_it_found(sqlite, count) -> None:
    update = "UPDATE meta SET value = ? || v.column2 FROM {rows} AS v WHERE key = v.column1"
    async with sqlite.write() as tx:
        tx.connection.run_many("INSERT INTO meta (key, value) VALUES (?, 'x')", [(f"k{n}",) for n in range(count)])

        changed = tx.connection.run_together(update, ("v",), [(f"k{n}", n) for n in range(count)])
        found = tx.connection.run_together(update, ("w",), [("k0", 0), ("nothing", 1)])
        rows = dict(tx.connection.fetch("SELECT key, value FROM meta WHERE key LIKE 'k%'"))
        query = "SELECT ? || key FROM {rows} AS v JOIN meta ON key = v.column1"
        read = tx.connection.fetch_together(query, ("a ",), [(key,) for key in sorted(rows)])

    assert read == [(f"a {key}",) for key in sorted(rows)]
    assert (changed, found) == (count, 1)
    assert rows == {f"k{n}": f"v{n}" for n in range(count)} | {"k0": "w0"}

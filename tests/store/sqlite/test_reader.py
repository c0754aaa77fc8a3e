"""SQLite's readers: one way to the thread for each statement, and one moment for all statements of a read."""

import asyncio
import sqlite3
import sys
import threading
from collections import Counter, defaultdict
from typing import Any

import pytest
from sqlalchemy.exc import DatabaseError, OperationalError

from tests.waiting import turns, until
from treadle_server.store.sqlite.reader import ReadingConnection, _run
from treadle_server.store.store import SqlStore

pytestmark = pytest.mark.anyio

READ = "SELECT value FROM meta WHERE key = 'k'"

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT 1 - i FROM n) SELECT max(i) FROM n"


@pytest.fixture
def stranger(tmp_path, sqlite):
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    connection.execute("INSERT INTO meta (key, value) VALUES ('k', 'before')")
    yield connection
    connection.close()


async def read(store: SqlStore, statement: str = READ) -> list[Any]:
    async with store.read() as connection:
        return list((await connection.exec_driver_sql(statement)).scalars())


async def test_each_statement_goes_to_the_thread_once_and_the_end_of_the_transaction_too(sqlite, monkeypatch) -> None:
    await read(sqlite)
    ways: dict[ReadingConnection, Counter[str]] = defaultdict(Counter)
    sent = ReadingConnection._execute

    async def counted(self, function, *args, **options):
        ways[self]["end" if getattr(function, "__name__", "") == "rollback" else "statement"] += 1
        return await sent(self, function, *args, **options)

    monkeypatch.setattr(ReadingConnection, "_execute", counted)
    async with sqlite.read() as connection:
        await connection.exec_driver_sql(READ)
        await connection.exec_driver_sql(READ)
    # Another test may have left one that ends a read now.
    [(mine, counts)] = [(one, counts) for one, counts in ways.items() if counts["statement"]]
    assert counts == {"statement": 2, "end": 1}

    ways.clear()
    async with sqlite.read():
        pass
    assert not ways[mine]


async def test_the_statements_of_a_read_agree_whatever_is_written_meanwhile(sqlite, stranger) -> None:
    async with sqlite.read() as connection:
        first = (await connection.exec_driver_sql(READ)).scalar_one()
        stranger.execute("UPDATE meta SET value = 'after' WHERE key = 'k'")
        second = (await connection.exec_driver_sql(READ)).scalar_one()

    assert (first, second) == ("before", "before")
    assert await read(sqlite) == ["after"]


async def test_a_read_that_is_over_keeps_nobody_from_writing_the_log_back(sqlite, stranger) -> None:
    for _ in range(3):
        assert await read(sqlite) == ["before"]

    [(is_busy, _, _)] = stranger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert not is_busy


async def test_what_a_statement_finds_comes_with_its_names_and_no_rows_are_an_empty_list(sqlite, stranger) -> None:
    async with sqlite.read() as connection:
        found = await connection.exec_driver_sql("SELECT key AS name, value FROM meta WHERE key IN (?, ?)", ("k", "x"))
        assert list(found.keys()) == ["name", "value"]
        assert found.all() == [("k", "before")]
        nothing = await connection.exec_driver_sql("SELECT key FROM meta WHERE key = ?", ("x",))
        assert list(nothing.keys()) == ["key"]
        assert nothing.all() == []


@pytest.mark.parametrize(
    ("statement", "error", "match"),
    [
        ("SELECT missing FROM meta", OperationalError, "no such column"),
        ("INSERT INTO meta (key, value) VALUES ('w', 'x')", DatabaseError, "readonly"),
    ],
)
async def test_what_fails_says_so_and_the_next_read_is_as_any_other(sqlite, stranger, statement, error, match) -> None:
    async with sqlite._reader.connect() as connection:
        with pytest.raises(error, match=match):
            await connection.exec_driver_sql(statement)

    assert await read(sqlite) == ["before"]
    assert not stranger.execute("SELECT 1 FROM meta WHERE key = 'w'").fetchall()
    [(is_busy, _, _)] = stranger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert not is_busy


@pytest.mark.parametrize("turns", [None, 1, 2, 3, 4, 5], ids=lambda turns: f"after {turns or 'it began'}")
async def test_a_read_that_nobody_waits_for_any_more_is_broken_off(sqlite, stranger, turns: int | None) -> None:
    """Also one that was handed to its thread and has not begun: an interrupt of nothing does nothing."""
    for _ in range(6):  # more than there are connections
        reading = asyncio.ensure_future(read(sqlite, ENDLESS))
        for _ in range(turns or 0):
            await asyncio.sleep(0)
        if turns is None:
            await until(_is_reading)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    await until(lambda: not _is_reading())
    assert await read(sqlite) == ["before"]


def _is_reading() -> bool:
    return any(frame.f_code is _run.__code__ for frame in sys._current_frames().values())


@pytest.mark.parametrize("last", ["opening", "rollback", "stop"])
def test_a_thread_that_nobody_waits_for_any_more_does_not_answer_a_loop_that_is_closed(
    monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    failed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    go_on = threading.Event()

    async def give_up() -> ReadingConnection:
        connection = ReadingConnection.made(":memory:", check_same_thread=False)
        if last != "opening":
            await connection
        connection._tx.put_nowait((None, go_on.wait))
        if last != "stop":
            connection._is_begun = True
            asked = asyncio.ensure_future(connection if last == "opening" else connection.rollback())
            await turns(5)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        if last != "opening":  # which stops by itself
            connection.stop()
        return connection

    connection = asyncio.run(give_up())
    go_on.set()
    connection._thread.join(60)

    assert not connection._thread.is_alive()
    assert connection._connection is None
    assert failed == []

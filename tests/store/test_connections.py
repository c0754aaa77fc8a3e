"""Connections that read."""

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from tests.waiting import until
from treadle_server import cli, store
from treadle_server.errors import StoreUnavailable
from treadle_server.settings import Settings
from treadle_server.store import connections
from treadle_server.store.postgres.dedicated import DedicatedConnection
from treadle_server.store.store import SqlStore

pytestmark = pytest.mark.anyio

PATIENCE = 30

ARRAY = re.compile(r"::([a-z0-9]+\[\])")

NAMED = sorted({name for path in Path(store.__path__[0]).rglob("*.py") for name in ARRAY.findall(path.read_text())})
"""The types of arrays that the store's statements name."""


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sqlite:////srv/treadle.db", "sqlite:////srv/treadle.db"),
        ("sqlite:////srv/mühle 100%25%3F/treadle.db", "sqlite:////srv/mühle 100%25%3F/treadle.db"),
        ("postgresql+asyncpg://me:hidden@db/tasks", "postgresql://me:***@db/tasks"),
        ("postgresql://me@/tasks?host=/run/pg&password=hidden", "postgresql://me@/tasks?host=%2Frun%2Fpg"),
        (
            "postgresql://me:hidden@first:5432,second:5433/tasks?target_session_attrs=read-write&sslpassword=hidden",
            "postgresql://me:***@/tasks?host=first%2Csecond&port=5432%2C5433&target_session_attrs=read-write",
        ),
    ],
)
def test_a_server_says_which_database_it_has_without_its_password(
    url: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one with several hosts: what says it ended every server that had listened already."""
    cli._say_hello(Settings(database_url=url), "http://127.0.0.1:1")

    assert f"  database  {named}\n" in capsys.readouterr().out


def with_parameters(url: str, more: str) -> str:
    """The URL with more behind its `?`."""
    return f"{url}{'&' if '?' in url else '?'}{more}"


@pytest.mark.postgres
@pytest.mark.parametrize("more", ["sslmode=prefer", "ssl=prefer", "sslmode=allow&application_name=mine"])
async def test_a_url_has_what_postgresqls_own_programs_know_too(postgres_database: str, more: str) -> None:
    """Who hosts a database gives its URL with `?sslmode=require`, at which every command ended with a traceback."""
    url = with_parameters(postgres_database, more)
    store, dedicated = SqlStore(url), DedicatedConnection(url, lambda: None)
    try:
        await store.open()
        async with store.read() as connection:
            assert await connection.scalar(text("SELECT current_setting('application_name')")) == "treadle"
        assert await (await dedicated.open()).fetchval("SELECT 1") == 1
    finally:
        await dedicated.close()
        await store.close()


@pytest.mark.postgres
@pytest.mark.parametrize("more", ["sslmode=nonsense", "target_session_attrs=nonsense"])
async def test_a_url_that_the_driver_refuses_is_said_to_be_refused(postgres_database: str, more: str) -> None:
    """It said that the database does not answer, which nobody had asked."""
    url = with_parameters(postgres_database, more)
    store, dedicated = SqlStore(url), DedicatedConnection(url, lambda: None)

    for opened in (store.open(), dedicated.open()):
        with pytest.raises(StoreUnavailable, match=r"^the database's URL can't be used: correct its parameters \("):
            await opened

    await store.close()


@pytest.mark.postgres
async def test_who_waits_to_write_has_what_is_given_back_though_others_could_not_connect(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waited at the pool waited for 30 s, in which a server wrote nothing: as where connections are scarce."""
    real, may_connect = connections._connected, True
    refuses, refused = asyncio.Event(), 0

    async def refusing(*_: Any, **__: Any) -> None:
        nonlocal refused
        refused += 1
        await refuses.wait()
        raise OSError("too many connections")

    async def connected(*given: Any, **arguments: Any) -> Any:
        return await (real if may_connect else refusing)(*given, **arguments)

    async def write() -> None:
        async with store.write():
            pass

    monkeypatch.setattr(connections, "_connected", connected)
    store = SqlStore(postgres_database)
    try:
        await store.open()
        async with store.write():
            may_connect = False
            others = [asyncio.create_task(write()) for _ in range(connections.WRITERS - 1)]
            await until(lambda: refused == len(others))
            waiting = asyncio.create_task(write())
            await asyncio.sleep(0)
            may_connect = True
            refuses.set()
            for other in others:
                with pytest.raises(StoreUnavailable, match="too many connections"):
                    await other
        async with asyncio.timeout(PATIENCE / 3):
            await waiting
    finally:
        await store.close()


@pytest.mark.postgres
async def test_sessions_that_rest_are_not_ended_for_that(postgres_database: str) -> None:
    """The leader lost its lock, and led again, twice a second; what had just begun in the others failed."""
    url = with_parameters(postgres_database, "idle_session_timeout=200")
    store, dedicated = SqlStore(url), DedicatedConnection(url, lambda: None)
    shown = "SELECT current_setting('idle_session_timeout')"
    try:
        await store.open()
        async with store.read() as reading, store.write() as tx:
            found = [await reading.scalar(text(shown)), (await tx.connection.exec_driver_sql(shown)).scalar_one()]
        assert [*found, await (await dedicated.open()).fetchval(shown)] == ["0", "0", "0"]
    finally:
        await dedicated.close()
        await store.close()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("changed", "more", "said"),
    [
        ({"database": "nowhere"}, "", "the database does not exist: create it"),
        ({"username": "a stranger"}, "", "the database rejects the user: check the user and password"),
        ({}, "channel_binding=require", "check those in its URL"),
        ({}, "sslmode=certainly", "`sslmode` parameter must be one of"),
        ({}, "statement_timeout=soon", "check those in its URL"),
        ({}, "max_connections=5", "check those in its URL"),
        ({"database": "template0"}, "", "the database accepts no connections"),
        ({}, "target_session_attrs=standby", "None of the hosts match"),
    ],
)
async def test_what_is_wrong_with_a_url_is_told_in_a_sentence(
    postgres_database: str, changed: dict[str, str], more: str, said: str
) -> None:
    url = make_url(postgres_database).set(**changed).render_as_string(hide_password=False)  # type: ignore[arg-type]
    store = SqlStore(with_parameters(url, more) if more else url)

    with pytest.raises(StoreUnavailable, match=said):
        await store.open()

    await store.close()


@pytest.mark.postgres
@pytest.mark.parametrize("is_pooled", [False, True])
@pytest.mark.parametrize("name", ["statement_cache_size", "prepared_statement_cache_size", "server_settings"])
async def test_an_argument_of_the_driver_is_no_parameter_of_a_url(
    postgres_database: str, name: str, is_pooled: bool
) -> None:
    """As SQLAlchemy's URLs have them: it was a TypeError, or said to be no URL."""
    store = SqlStore(with_parameters(postgres_database, f"{name}=many"), is_pooled=is_pooled)

    with pytest.raises(StoreUnavailable, match=f'parameter: check those in its URL .*"{name}"'):
        await store.open()

    await store.close()


@pytest.mark.postgres
async def test_what_the_database_closed_is_lent_to_nobody(postgres_database: str) -> None:
    """As after its restart: the first to read would have been told that it does not answer."""
    store = SqlStore(postgres_database)
    await store.open()
    try:
        async with store.read() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            pid, closed = driver.get_server_pid(), asyncio.Event()
            driver.add_termination_listener(lambda _: closed.set())
        other = await asyncpg.connect(postgres_database)
        assert await other.fetchval("SELECT pg_terminate_backend($1)", pid)
        await other.close()
        async with asyncio.timeout(PATIENCE):
            await closed.wait()

        async with store.read() as connection:
            assert await connection.scalar(text("SELECT pg_backend_pid()")) != pid
    finally:
        await store.close()


@pytest.mark.postgres
async def test_no_statement_waits_until_its_connection_knows_the_types_it_names(postgres_database: str) -> None:
    """The driver asks for a type's description where a statement first names it, on each connection anew."""
    asked: list[str] = []
    opened = SqlStore(postgres_database)
    await opened.open()
    try:
        async with opened.write() as tx, opened.read() as connection:
            _, writes = await tx.connection.open()
            for driver in (writes, (await connection.get_raw_connection()).driver_connection):
                with driver.query_logger(lambda record: asked.append(record.query)):
                    for name in NAMED:
                        assert await driver.fetchval(f"SELECT $1::{name}", []) == []
    finally:
        await opened.close()

    assert NAMED
    assert asked == [f"SELECT $1::{name}" for name in NAMED] * 2


@pytest.mark.postgres
async def test_a_connection_that_breaks_before_its_first_statement_is_a_database_that_does_not_answer(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_LEARN", "SELECT pg_terminate_backend(pg_backend_pid())")
    monkeypatch.setattr(connections, "_TYPES", ())
    store = SqlStore(postgres_database)

    with pytest.raises(StoreUnavailable, match="the database does not answer"):
        await store.open()

    await store.close()


@pytest.mark.postgres
async def test_the_next_transaction_has_the_connection_of_the_last_unless_it_was_closed_or_failed(
    postgres_database: str,
) -> None:
    store = SqlStore(postgres_database)
    await store.open()
    try:
        driver = await written_by(store)
        assert await written_by(store) is driver

        closed = asyncio.Event()
        driver.add_termination_listener(lambda _: closed.set())
        other = await asyncpg.connect(postgres_database)
        assert await other.fetchval("SELECT pg_terminate_backend($1)", driver.get_server_pid())
        await other.close()
        async with asyncio.timeout(PATIENCE):
            await closed.wait()
        after = await written_by(store)
        assert after is not driver

        with pytest.raises(StoreUnavailable):
            async with store.write():
                after.terminate()
        assert await written_by(store) is not after
    finally:
        await store.close()


async def written_by(store: SqlStore) -> asyncpg.Connection:
    """Return the driver's connection of a transaction."""
    async with store.write() as tx:
        await tx.connection.execute(text("SELECT 1"))
        return (await tx.connection.open())[1]


@pytest.mark.postgres
async def test_who_waits_for_a_connection_has_the_first_that_is_free(postgres_database: str) -> None:
    store = SqlStore(postgres_database)
    await store.open()
    try:
        async with AsyncExitStack() as longest:
            await longest.enter_async_context(store.write())
            async with store.write():
                waiting = asyncio.ensure_future(written_by(store))
                await asyncio.sleep(0)
                assert not waiting.done()
            async with asyncio.timeout(PATIENCE):
                await waiting
    finally:
        await store.close()


OUT_OF_ORDER = {
    "08006": "connection failure",
    "28000": "invalid authorization",
    "3D000": "no such database",
    "53300": "too many connections",
    "57P01": "admin shutdown",
    "58030": "input/output error",
    "25006": "read-only transaction",
    "3F000": "invalid schema name",
    "42501": "insufficient privilege",
    "42P01": "undefined table",
    "42P10": "no key for ON CONFLICT, as before a restore has made it",
    "55P03": "lock not available",
    "XX001": "data corrupted",
}
"""States with which PostgreSQL says that it can't answer now, or may not, as it is set up."""


@pytest.mark.postgres
@pytest.mark.parametrize("way", ["read", "write"])
async def test_what_postgresql_says_when_it_is_out_of_order_is_no_defect_of_ours_t8(
    postgres_database: str, way: str
) -> None:
    store = SqlStore(postgres_database)
    await store.open()
    try:
        for state in OUT_OF_ORDER:
            with pytest.raises(StoreUnavailable):
                async with getattr(store, way)() as given:
                    connection = given if way == "read" else given.connection
                    await connection.exec_driver_sql(f"DO $$ BEGIN RAISE SQLSTATE '{state}'; END $$")
    finally:
        await store.close()

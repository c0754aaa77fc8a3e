"""The schema that migrations make, and what the database itself refuses."""

import asyncio
import json
import subprocess
import sys
import warnings
from datetime import UTC, datetime
from uuid import uuid4

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from uuid_utils import uuid7

from tests.conftest import _database_of, _execute
from treadle_server.errors import ValidationFailed
from treadle_server.store.migrations import config_for
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import jobs, metadata, worker_jobs, workers
from treadle_server.store.urls import parse_url

pytestmark = pytest.mark.anyio


OF_EXPRESSIONS = {"ix_tasks_start_limit", "ix_tasks_run_limit"}
"""Indexes that SQLAlchemy can't compare: that they are there, their plans show."""

ON_SQLITE_ALONE = {"fk_runs_task_seq", "fk_task_specs_seq"}
"""Constraints that PostgreSQL does without; SQLAlchemy compares them all the same."""


def _differences(connection: sa.Connection) -> list[object]:
    others = OF_EXPRESSIONS if connection.dialect.name == "sqlite" else OF_EXPRESSIONS | ON_SQLITE_ALONE

    def _is_compared(_thing: object, name: str | None, *_rest: object) -> bool:
        return name not in others

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Skipped unsupported reflection of expression-based index", sa.exc.SAWarning)
        context = MigrationContext.configure(connection, opts={"include_object": _is_compared})
        return compare_metadata(context, metadata)


async def test_the_migrations_lead_to_exactly_the_tables_of_the_code_and_nowhere_else_again(empty_database_url) -> None:
    for _ in range(2):
        store = SqlStore(empty_database_url)
        await store.open()
        # Not in a writer's transaction: PostgreSQL ends one that a busy machine leaves idle for ten seconds.
        async with store.read() as connection:
            assert await connection.run_sync(_differences) == []
        await store.close()


async def test_a_commit_on_sqlite_is_durable_g1(tmp_path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'x.db'}")
    await store.open()
    async with store.write() as tx:
        pragmas = {
            name: (await tx.connection.exec_driver_sql(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    await store.close()
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


@pytest.mark.postgres
async def test_a_commit_on_postgresql_is_durable_g1(postgres_database) -> None:
    store = SqlStore(postgres_database)
    await store.open()
    async with store.write() as tx:
        assert (await tx.connection.exec_driver_sql("SHOW synchronous_commit")).scalar() == "on"
    await store.close()


async def test_readers_cannot_write_on_sqlite(tmp_path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'x.db'}")
    await store.open()
    with pytest.raises(Exception, match=r"readonly|query_only"):
        async with store.read() as connection:
            await connection.exec_driver_sql("DELETE FROM meta")
    await store.close()


async def test_the_view_shows_tasks_with_times_that_people_read_t9(shop) -> None:
    [task] = await shop.submit(tags='{"k":"v"}')

    async with shop.engine.store.read() as connection:
        row = (await connection.execute(sa.text("SELECT * FROM treadle_tasks"))).mappings().one()

    assert (str(row["id"]), row["job"], row["status"]) == (task.id, "@global:tasks:noop", "pending")
    assert str(row["created_at"]).startswith("2026-01-01")


@pytest.mark.parametrize(
    "change",
    [
        "status = 'lost'",
        "status = 'claimed'",
        "completed_at = created_at",
        "weight = 0",
        "reason = 'whim'",
        "on_failure = 'explode'",
        "status = 'running', taken_until = due_at",
        "digest = '1'",
    ],
)
async def test_the_database_refuses_a_row_that_breaks_an_invariant(shop, change) -> None:
    await shop.submit()

    with pytest.raises(IntegrityError):
        async with shop.engine.store.write() as tx:
            await tx.connection.execute(sa.text(f"UPDATE tasks SET {change}"))


async def test_a_task_stands_in_no_lane_of_another_job_and_in_none_that_is_not_there(shop) -> None:
    [task] = await shop.submit()
    other = await shop.register("other")
    await shop.submit(job=other)

    for change in (f"job_num = job_num + 1 WHERE seq = {task.seq}", f"lane = 99 WHERE seq = {task.seq}"):
        with pytest.raises(IntegrityError):
            async with shop.engine.store.write() as tx:
                await tx.connection.execute(sa.text(f"UPDATE tasks SET {change}"))


async def test_two_jobs_of_one_name_are_refused_by_the_database_z5(shop) -> None:
    columns = "id, room, category, name, schema, schema_version, defaults, created_at, retain, fair, paused, version"
    with pytest.raises(IntegrityError):
        async with shop.engine.store.write() as tx:
            other = columns.replace("id", "'00000000-0000-7000-8000-00000000000f'", 1)
            if tx.dialect == "postgresql":
                other = other.replace("f'", "f'::uuid", 1)
            await tx.connection.execute(sa.text(f"INSERT INTO jobs (num, {columns}) SELECT 999, {other} FROM jobs"))


@pytest.mark.parametrize("text", ["1000000000000000000000000000001", "-0.0", "1.50", "7", '"7"', "true", "[1, 2]"])
async def test_json_text_comes_back_as_it_was_numbers_too(shop, text) -> None:
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    await shop.report(claimed, "completed", result=text)

    kept = (await shop.get(claimed.id)).result

    assert isinstance(kept, str)
    if shop.engine.store.dialect == "sqlite":
        assert kept == text
    else:
        assert json.loads(kept) == json.loads(text)


def test_the_newest_revision_is_the_one_that_alembic_finds() -> None:
    from alembic.script import ScriptDirectory

    from treadle_server.store.migrations import HEAD, config_for

    assert ScriptDirectory.from_config(config_for()).get_current_head() == HEAD


_OPEN = """
import asyncio, sys
from treadle_server.store.store import SqlStore

async def main():
    store = SqlStore(sys.argv[1])
    await store.open()
    await store.close()
    print("alembic" in sys.modules)

asyncio.run(main())
"""


def test_a_database_that_is_up_to_date_is_opened_without_alembic(empty_database_url: str) -> None:
    opened = [
        subprocess.run([sys.executable, "-c", _OPEN, empty_database_url], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]

    assert [one.stdout.strip() for one in opened] == ["True", "False"]


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (["CREATE TABLE tasks (title TEXT)"], "has tables, but no revision of Treadle"),
        (["CREATE TABLE meta (title TEXT)"], "has tables, but no revision of Treadle"),
        (
            ["CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES ('4f2a1c')"],
            "4f2a1c",
        ),
        (["CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES ('0001')"], "0001"),
    ],
    ids=["tables", "meta", "revision", "same revision"],
)
async def test_another_programs_database_is_refused_and_nothing_of_it_changed(
    empty_database_url: str, statements: list[str], words: str
) -> None:
    engine = create_async_engine(parse_url(empty_database_url), poolclass=NullPool)
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(sa.text(statement))
        before = await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names())

    with pytest.raises(ValidationFailed, match=rf"{words}.*: give Treadle a database of its own"):
        await _open_once(empty_database_url)

    async with engine.connect() as connection:
        assert await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names()) == before
    await engine.dispose()


@pytest.mark.postgres
@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_whose_encoding_can_not_keep_every_text_is_not_begun(postgres_url: str, encoding: str) -> None:
    """A submit with other letters than its own was an internal error."""
    name = f"treadle_test_{uuid4().hex[:12]}"
    await _execute(postgres_url, f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    url = _database_of(postgres_url, name)
    try:
        with pytest.raises(ValidationFailed, match=f"encoding is {encoding}.* ENCODING 'UTF8' TEMPLATE template0"):
            await _open_once(url)
    finally:
        await _execute(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


async def _open_once(url: str) -> None:
    store = SqlStore(url)
    try:
        await store.open()
    finally:
        await store.close()


@pytest.mark.postgres
async def test_servers_that_start_at_once_on_an_empty_database_take_none_for_anothers_g11(
    old_url: str,
) -> None:
    """Three wait for the one that makes the tables, and find its revision with them."""
    stores = [SqlStore(old_url) for _ in range(4)]

    await asyncio.gather(*(store.open() for store in stores))

    for store in stores:
        await store.close()


@pytest.mark.postgres
async def test_tables_stand_in_a_schema_of_any_name(old_url: str) -> None:
    """One with a capital letter or a hyphen was looked for as a name of another, and no server started."""
    name = parse_url(old_url).database
    await _execute(old_url, 'CREATE SCHEMA "A-Team\'s ""Own"""')
    await _execute(old_url, f'ALTER DATABASE "{name}" SET search_path = "A-Team\'s ""Own"""')

    for _ in range(2):
        store = SqlStore(old_url)
        await store.open()
        async with store.read() as connection:
            where = sa.text("SELECT schemaname FROM pg_tables WHERE tablename = 'task_steps'")
            assert (await connection.execute(where)).scalars().all() == ['A-Team\'s "Own"']
        await store.close()


async def test_jobs_of_before_belong_to_the_one_user_whose_workers_serve_them(empty_database_url: str) -> None:
    """Z5: who registered them was not kept. Those of several users, and of none, are nobody's."""
    users = {1: ["ann", "ann"], 2: ["ann", "bob"], 3: []}
    store = SqlStore(empty_database_url)
    await store.open()
    async with store.write() as tx:
        await tx.connection.run_sync(lambda sync: command.downgrade(config_for(sync), "0010"))
        for num, owners in users.items():
            await tx.connection.execute(_made(jobs, num=num, name=f"job{num}"))
            for owner in owners:
                worker = str(uuid7())
                await tx.connection.execute(_made(workers, id=worker, owner=owner))
                await tx.connection.execute(sa.insert(worker_jobs).values(worker_id=worker, job_num=num))
    await store.close()

    store = SqlStore(empty_database_url)
    await store.open()
    async with store.read() as connection:
        found = [tuple(row) for row in await connection.execute(sa.select(jobs.c.num, jobs.c.owner).order_by("num"))]
    await store.close()

    assert found == [(1, "ann"), (2, None), (3, None)]


def _made(table: sa.Table, **given: object) -> sa.Insert:
    """Return the insert of a row with something in each column that needs it."""
    now = datetime.now(UTC)
    some: dict[str, object] = {
        "id": str(uuid7()), "room": "lab", "category": "tasks", "schema": "{}", "schema_version": 1, "defaults": "{}",
        "created_at": now, "last_heartbeat": now, "retain": False, "paused": False, "version": 1, "concurrency": 1,
        "min_concurrency": 0, "state": "online", "is_limited": False,
    }  # fmt: skip
    needed = {column.name for column in table.c if not column.nullable}
    return sa.insert(table).values({name: value for name, value in some.items() if name in needed} | given)

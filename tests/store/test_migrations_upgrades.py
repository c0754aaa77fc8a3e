"""A database of any earlier version becomes what a fresh one is, with all that was in it."""

import asyncio
import hashlib
import json
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from shutil import copyfile

import asyncpg
import pytest
import sqlalchemy as sa
from alembic import command
from click.testing import CliRunner
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from tests.store import histories
from tests.store.schemas import Schema, schema_of
from tests.waiting import until
from treadle_server.cli import migrate
from treadle_server.store import migrations, store
from treadle_server.store.migrations import HEAD, REVISIONS, config_for
from treadle_server.store.postgres.exclusive import KEY
from treadle_server.store.sqlite.lock import hold_lock
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import meta
from treadle_server.store.urls import parse_url

pytestmark = pytest.mark.anyio

DIGESTS = {
    "0001_initial.py": "deef08d0e0e7e4a6d9963aaf531065a7ef0697324dec3fb9cbbe0f1f2a34f3ad",
    "0002_capacity_and_views.py": "8b5d6db31a91c6d68c311d27c5a1189eeba570d55b3babacbe55c0b87e68cb5f",
    "0003_artifacts.py": "20f3e56153972b5a1f97204fb6a34129bf14e31024a421a447a8637135e1c029",
    "0004_webhooks.py": "c7edc08b91432ae079c2f09e1e2a0987377551f4b24fd9e18c7b9725f3df9d0e",
    "0005_servers.py": "94514472d22df194a4256c2eb3ff535d36a5f1a2cb53377bb442e968815df1ad",
    "0006_schedules.py": "fb3e9ed61511d178bc1bc2cffb9c99c8ce32f8dfa3ebe16537c1c529cd079b8e",
    "0007_signing_keys.py": "4f03458d91e3cf76a01b1029e0d2139282ce7ae9505f9e74b773061475a1287a",
    "0008_slots.py": "ae13fb8b7d33f916c0aa623a8b1bbb2908700c79dc86fe9edf1431a974eb1dd4",
    "0009_limits.py": "1a5bf1df1a5f0e0dc3fda16c5d7577bff39d0dc6853ddc05a3b05a4098c787a1",
    "0010_origins.py": "917127007eda306af75a0a6f3e08a7482ffbebf1d9c560a471ff4ebec09c6469",
    "0011_owners_of_jobs.py": "8bccc4ca4ff97ce20b29a9e3f54f639679efb445bd2f3a723b3928e71948cdb3",
    "0012_tokens_of_users.py": "03387df50e5c79c163f2dfb9456f622afbc89a681f1cf0b95378ec438eca8cb8",
    "0013_as_fresh.py": "60e269e9904af8c6f785d2c55b0b212a56ed0b21e491b565a6e57657101c51e7",
    "0014_usage_and_line.py": "4fc10529b5a1229551b7177427290b9e37f8f2dfb76b67cca8b07c53d116c85b",
    "0015_lost_runs.py": "6f75f08f12a756b1585514471fc77c82ad44f5f48320d89c4afcf6b586061266",
    "0016_skipped_ticks.py": "4dc9b9f5c4e36e022b0ed0e68611475e2df36fdec95d4e374f6b20df65812eed",
    "0017_claim_keys.py": "9e8a58d56f78fb5b197903e44e670b0f7db1d154f39b6de3a42bd17eaeeadf47",
    "0018_tags.py": "c1ecc8291c5c77514970c0cc4c606baed752e34b53a973c0b3f7d92d33ad24d1",
    "0019_fence.py": "a21d447284e11995ca83096780551be2602a73662e0c64f2c9813b362ef37720",
    "0020_runs_by_themselves.py": "3e0f6cc9198820ea249a4f7cda4224b8ba176121a7a132f1cfa080a14eaffa29",
    "0021_past_outcomes.py": "d12a47436029d0bc13d772fb69ca1b7bb141b1c69724190d00165a30a3d97390",
    "0022_failures.py": "57bfb6a0e4e3d8f8c7253fdb213b11193253a1d4ccbdd060cdf94d4882d70be4",
    "0023_traces.py": "fb698a721f0e459eebb5ac311ca1060dd58a7d37562f935e282d9df01bb15658",
    "0024_encrypted_jobs.py": "b69d944ec243ade091f2573e7d67bd9ff679e8b2109873da81d27b1b53aa4a3c",
    "0025_steps.py": "cd301463260a74e4490d20a34c7c8bd1c48c8b12215bfb5c301e67e305b90268",
    "0026_limits.py": "04bf5c0afc3be37d3df658d3363d87cd86d8dc5b4255953b8efcfcfbcb1b7d2f",
    "0027_flows.py": "56a7635cf82048f6a255d3a96e232a448833ca0c1446115b046b995c1465e1d9",
    "0028_limits_that_reject.py": "a47943b1537030c0aedb621c22f82e130a1d2ae0c1d9e503fe01379b47f9ab4f",
    "0029_limits_that_supersede.py": "6e0334e4f017b990289cf8b6d195fc2b9316ce3f3011ea5159f9776993f5ebe0",
    "0030_last_runs.py": "435dab6d41d5a447ff875c21b14aa6f4d3d71bd6cd39b644b7b313cf7ebc9f69",
    "0031_one_index_of_lines.py": "6809924dd0d9f172bd32f9412797056078bbcd2671143ed391bb64f8bc22d734",
    "0032_lanes_of_jobs.py": "947cb6fc406f9310ddae1ab1af2491a512d2f1924cab66253727826e0822329c",
    "0033_specs.py": "57af1a14a951706db5c08b9fa97e782dd88ccf6746e53860a592c882238ed24a",
}
"""SHA-256 of each migration. A new one is added here; one that is here stays as it is, and the next mends it."""

OTHERWISE = REVISIONS[REVISIONS.index("0013") - 1]
"""The last revision at which databases differed by the form of 0001 that made them."""


ON_SQLITE = [
    *[("first", "0001"), ("second", "0001"), ("third", OTHERWISE)],
    *[pytest.param("fourth", revision, marks=pytest.mark.crossed) for revision in REVISIONS[:-2]],
    *[("fourth", revision) for revision in REVISIONS[-2:]],
]
"""Forms of 0001, each with the revision to which the database was brought before it is upgraded.

All go through the same migrations: the default run stops on the way at the newest alone.
"""

ON_POSTGRESQL = [("first", "0001"), ("second", OTHERWISE), ("fourth", "0005")]


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[AsyncConnection]:
    engine = create_async_engine(
        parse_url(url), poolclass=NullPool, json_serializer=str, json_deserializer=lambda text: text
    )
    async with engine.begin() as connection:
        yield connection
    await engine.dispose()


def _make(connection: sa.Connection, form: str, revision: str) -> dict[str, list[str]]:
    """Make an older database and fill it; return the columns that it has."""
    if form == "fourth":
        command.upgrade(config_for(connection), "0001")
    else:
        for statement in histories.statements(form, connection.dialect.name):
            connection.exec_driver_sql(statement)
    command.upgrade(config_for(connection), revision)
    return histories.fill(connection, revision)


def _kept(rows: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return all rows but the one that each server that opens the database writes."""
    return rows | {"meta": [row for row in rows["meta"] if not row.startswith(f"('{KEY}'")]}


async def _upgraded(url: str, form: str, revision: str) -> Schema:
    """Make an older database, open it as the server does, compare what is in it, and return its schema."""
    async with _connected(url) as connection:
        columns = await connection.run_sync(_make, form, revision)
        before = await connection.run_sync(histories.read, columns)

    store = SqlStore(url)
    await store.open()
    await store.close()

    async with _connected(url) as connection:
        assert _kept(await connection.run_sync(histories.read, columns)) == _kept(before)
        assert len(before["tasks"]) == len(histories.ROWS["tasks"])
        return await connection.run_sync(schema_of)


def _assert_same(found: Schema, fresh: Schema) -> None:
    assert {name: found.get(name) for name in found | fresh if found.get(name) != fresh.get(name)} == {
        name: fresh.get(name) for name in found | fresh if found.get(name) != fresh.get(name)
    }


@pytest.mark.parametrize(("form", "revision"), ON_SQLITE)
async def test_an_older_database_on_sqlite_becomes_what_a_fresh_one_is(tmp_path, sqlite_template, form, revision):
    found = await _upgraded(f"sqlite:///{tmp_path / 'old.db'}", form, revision)

    copyfile(sqlite_template, tmp_path / "fresh.db")
    async with _connected(f"sqlite:///{tmp_path / 'fresh.db'}") as connection:
        _assert_same(found, await connection.run_sync(schema_of))
    async with _connected(f"sqlite:///{tmp_path / 'old.db'}") as connection:
        assert (await connection.exec_driver_sql("PRAGMA integrity_check")).scalars().all() == ["ok"]
        assert (await connection.exec_driver_sql("PRAGMA foreign_key_check")).all() == []
        texts = (await connection.exec_driver_sql("SELECT result, typeof(result) FROM tasks WHERE seq > 3")).all()
        assert {kind for _, kind in texts} == {"text", "null"}
        assert [json.loads(text) for text, _ in texts if text is not None] == [42, "7", 1.5, True]


@pytest.mark.postgres
@pytest.mark.parametrize(("form", "revision"), ON_POSTGRESQL)
async def test_an_older_database_on_postgresql_becomes_what_a_fresh_one_is(old_url, postgres_database, form, revision):
    found = await _upgraded(old_url, form, revision)

    async with _connected(postgres_database) as connection:
        _assert_same(found, await connection.run_sync(schema_of))


WAITS = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE relation = 'tasks'::regclass AND NOT granted)"


@pytest.mark.postgres
async def test_a_migration_lets_an_older_server_end_what_it_has_begun(old_url, monkeypatch):
    """What stands alone has its tables first, and looks then who writes: the migration was ended, and begun anew."""
    async with _connected(old_url) as connection:
        await connection.run_sync(lambda sync: command.upgrade(config_for(sync), REVISIONS[-2]))
        await connection.execute(meta.insert().values(key=KEY, value=f"{REVISIONS[-2]}:"))
    tries: list[sa.Connection] = []
    monkeypatch.setattr(store, "upgrade", lambda connection: (tries.append(connection), migrations.upgrade(connection)))
    older, looking, new = await asyncpg.connect(old_url), await asyncpg.connect(old_url), SqlStore(old_url)
    try:
        async with older.transaction():
            await older.execute("LOCK TABLE tasks IN ROW EXCLUSIVE MODE")  # as of its parsing
            opening = asyncio.ensure_future(new.open())
            await until(partial(looking.fetchval, WAITS))
            await older.execute("SELECT value FROM meta WHERE key = $1 FOR SHARE", KEY)
        await opening
    finally:
        await asyncio.gather(older.close(), looking.close(), new.close())
    assert len(tries) == 1


def test_a_migration_is_never_edited_again() -> None:
    files = sorted((Path(migrations.__file__).parent / "versions").glob("*.py"))

    assert {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files} == DIGESTS


async def test_a_database_that_may_not_be_declared_anew_is_used_as_it_is(tmp_path, caplog) -> None:
    """Some systems' SQLite forbid to write what declares a table."""

    def upgrade(connection: sa.Connection) -> None:
        def refused(action: int, table: str | None, column: str | None, *_rest: object) -> int:
            return (
                sqlite3.SQLITE_DENY
                if (table, column) == ("sqlite_master", "sql") and action == sqlite3.SQLITE_UPDATE
                else sqlite3.SQLITE_OK
            )

        driver = connection.connection.driver_connection
        assert driver is not None
        _make(connection, "third", OTHERWISE)
        # Columns that later revisions add are declared by SQLite itself, which may.
        driver.set_authorizer(refused)
        command.upgrade(config_for(connection), "0013")
        driver.set_authorizer(None)
        migrations.upgrade(connection)

    engine = sa.create_engine(f"sqlite:///{tmp_path / 'old.db'}", poolclass=NullPool)
    with engine.begin() as connection:
        upgrade(connection)

    with engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == HEAD
        assert connection.exec_driver_sql("SELECT count(*) FROM tasks").scalar() == len(histories.ROWS["tasks"])
    assert "keep what an earlier version declared" in caplog.text


def test_migrate_leaves_a_file_alone_that_a_server_has(tmp_path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    with hold_lock(parse_url(url)):
        told = CliRunner().invoke(migrate, ["--database-url", url, "--data-dir", str(tmp_path)])

    assert told.exit_code == 1
    assert "another server is using" in told.output
    assert not (tmp_path / "old.db").exists()


def test_migrate_says_how_far_it_is(tmp_path, monkeypatch) -> None:
    """A million tasks take a minute, of which nothing was said until it was over."""
    url = f"sqlite:///{tmp_path / 'old.db'}"

    def upgrade(connection: sa.Connection) -> None:
        migrations.upgrade(connection)
        logging.getLogger("treadle_server.store.migrations").info("column %d of %d leaves the table of tasks", 3, 14)

    monkeypatch.setattr(store, "upgrade", upgrade)
    told = CliRunner().invoke(migrate, ["--database-url", url, "--data-dir", str(tmp_path)])

    assert told.exit_code == 0
    assert "column 3 of 14 leaves the table of tasks" in told.stderr
    assert told.stdout == "The database is up to date.\n"

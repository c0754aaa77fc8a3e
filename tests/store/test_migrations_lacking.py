"""Databases that lack a part, or have one of somebody else's, are told of and left as they are."""

import re

import pytest
import sqlalchemy as sa
from alembic import command
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from tests.store.schemas import Schema, schema_of
from treadle_server.errors import ValidationFailed
from treadle_server.store.migrations import HEAD, config_for
from treadle_server.store.store import SqlStore
from treadle_server.store.urls import parse_url

pytestmark = pytest.mark.anyio


async def _changed(url: str, *statements: str, revision: str | None = None) -> Schema:
    """Bring the database to the revision, change it by hand, and return its schema."""
    engine = create_async_engine(parse_url(url), poolclass=NullPool)
    async with engine.begin() as connection:
        if revision is not None:
            await connection.run_sync(lambda sync: command.upgrade(config_for(sync), revision))
        for statement in statements:
            await connection.execute(sa.text(statement))
        return await connection.run_sync(schema_of)


async def _refused(url: str) -> str:
    store = SqlStore(url)
    try:
        with pytest.raises(ValidationFailed) as refused:
            await store.open()
    finally:
        await store.close()
    return str(refused.value)


@pytest.mark.parametrize(
    ("revision", "statement", "name"),
    [
        (HEAD, "DROP TABLE past_outcomes", "past_outcomes"),
        (HEAD, "DROP VIEW treadle_runs", "treadle_runs"),
        (HEAD, "DROP INDEX ix_tasks_due", "ix_tasks_due"),
        ("0025", "DROP TABLE task_logs", "task_logs"),
    ],
)
async def test_no_server_starts_on_a_database_that_lacks_a_part(
    empty_database_url: str, revision: str, statement: str, name: str
) -> None:
    """A restore writes the revision first and the indexes last: servers began to work on what was half there."""
    before = await _changed(empty_database_url, statement, revision=revision)

    said = await _refused(empty_database_url)

    assert f"the database is marked as {revision}, but lacks {name}: " in said
    assert said.endswith("nothing was changed")
    assert await _changed(empty_database_url) == before


@pytest.mark.postgres
@pytest.mark.parametrize("table", ["meta", "task_tags"])
async def test_no_server_starts_on_a_database_that_lacks_a_key(old_url: str, table: str) -> None:
    await _changed(old_url, f"ALTER TABLE {table} DROP CONSTRAINT pk_{table}", revision=HEAD)

    assert f"lacks pk_{table}: " in await _refused(old_url)


@pytest.mark.postgres
async def test_a_schema_that_comes_before_the_tables_own_hides_nothing(old_url: str) -> None:
    """As one that is made later and called as the role is, which PostgreSQL looks into first."""
    await _changed(old_url, "CREATE SCHEMA postgres", revision=HEAD)

    store = SqlStore(old_url)
    await store.open()
    await store.close()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE VIEW mine AS SELECT id, payload FROM tasks", "mine"),
        ("CREATE TABLE task_specs (seq BIGINT)", "task_specs"),
        ("DROP INDEX ix_tasks_job", "ix_tasks_job"),
    ],
    ids=["view", "table", "index"],
)
async def test_what_is_in_the_way_of_a_migration_is_told_with_what_to_do(
    empty_database_url: str, statement: str, words: str
) -> None:
    before = await _changed(empty_database_url, statement, revision="0032")

    said = await _refused(empty_database_url)

    assert re.search(
        rf"can't be migrated from revision 0032 to {HEAD} \(.*{words}.*\); nothing was changed; drop", said
    )
    assert await _changed(empty_database_url) == before

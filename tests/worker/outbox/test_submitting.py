"""A submit is a row of the user's own transaction: there with its commit, and never when it rolls back (F6)."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from opentelemetry import trace
from opentelemetry.trace import SpanContext, TraceFlags
from sqlalchemy.dialects import mssql, mysql, oracle
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session

from tests.worker.outbox.conftest import async_url, note, orders, rows
from treadle import Client, Limit, Options, outbox, task
from treadle.encryption import FernetCodec, Sealer, new_key
from treadle.errors import InvalidArguments, NoCodec
from treadle.outbox import submitting
from treadle.outbox.handing import hand_over
from treadle.tasks.definition import Task
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


class RolledBack(Exception):
    """What the user's code raises in its transaction."""


@pytest.mark.parametrize(
    "make", [lambda e: e.begin(), lambda e: async_sessionmaker(e).begin()], ids=["conn", "session"]
)
async def test_f6_a_row_is_there_when_its_transaction_commits_and_not_when_it_rolls_back(
    shop: AsyncEngine, make: Callable[[AsyncEngine], Any]
) -> None:
    async with make(shop) as transaction:
        kept = await outbox.submit(transaction, note.bind(1))
    with pytest.raises(RolledBack):
        async with make(shop) as transaction:
            await outbox.submit(transaction, note.bind(2))
            raise RolledBack

    [row] = await rows(shop)
    assert (row.id, row.room, row.job) == (kept, "@global", "@global:tasks:note")
    assert json.loads(row.body) == {"payload": {"n": 1}}
    assert json.loads(row.registration)["name"] == "note"
    assert abs(datetime.now(UTC) - row.created_at.replace(tzinfo=UTC)) < timedelta(minutes=5)
    assert (row.refused_at, row.problem) == (None, None)


@pytest.mark.parametrize("kind", ["connection", "session"])
def test_f6_what_is_not_async_writes_the_same(tmp_path: Path, kind: str) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/shop.db")
    metadata = sa.MetaData()
    table = outbox.table_in(metadata, "to_do")
    metadata.create_all(engine)
    begin: Callable[[], Any] = engine.begin if kind == "connection" else lambda: Session(engine).begin().session

    with begin() as transaction:
        outbox.submit_many_sync(transaction, [note.bind(1), note.bind(2)], table=table)
        if kind == "session":
            transaction.commit()
    with begin() as transaction:
        outbox.submit_sync(transaction, note.bind(3), table=table)
        transaction.rollback()

    with engine.connect() as connection:
        written = connection.execute(sa.select(table.c.body).order_by(table.c.seq)).scalars()
        assert [json.loads(body)["payload"]["n"] for body in written] == [1, 2]
    engine.dispose()


@pytest.mark.parametrize("several", [iter, tuple])
async def test_many_rows_are_written_of_whatever_gives_their_tasks(shop: AsyncEngine, several: Any) -> None:
    """A generator was gone through to be checked: nothing was left of it to be written, and nothing was said."""
    async with shop.begin() as transaction:
        written = await outbox.submit_many(transaction, several([note.bind(1), note.bind(2)]))

    assert [row.id for row in await rows(shop)] == written
    assert len(written) == 2


@task(name="sealed", encrypted=True, limits=[Limit("words", key="/word", concurrency=1)])
def sealed(word: str) -> str:
    return word


async def test_an_encrypted_task_is_encrypted_in_the_row_already_and_the_relay_needs_no_keys_f6_f7(
    shop: AsyncEngine, server: Served, client: Client
) -> None:
    codec = FernetCodec(new_key())
    async with shop.begin() as connection:
        with pytest.raises(NoCodec, match="nothing was sent"):
            await outbox.submit(connection, sealed.bind("secret"))
        task_id = await outbox.submit(connection, sealed.bind("secret"), codec=codec)

    [row] = await rows(shop)
    outcome = await hand_over(client, [row])
    async with Client(server.url, server.token, codec=codec) as keyed:
        there = await keyed.get(task_id)

    assert "secret" not in row.body
    assert '"treadle:limit_keys":{"/word":"' in row.body.replace(" ", "")
    assert [one.id for one in outcome.handed] == [task_id]
    assert (there.encrypted, there.payload) == (True, {"word": "secret"})


async def test_options_go_with_the_row_and_a_delay_counts_from_the_submit(shop: AsyncEngine) -> None:
    before = datetime.now(UTC)
    async with shop.begin() as connection:
        bound = note.bind(1, options=Options(priority=3, delay=60))
        await outbox.submit(connection, bound, options=Options(priority=5, tags={"k": "v"}), room="lab")

    [row] = await rows(shop)
    body = json.loads(row.body)
    due = datetime.fromisoformat(body.pop("scheduled_at"))
    assert before + timedelta(seconds=60) <= due <= datetime.now(UTC) + timedelta(seconds=60)
    assert body == {"payload": {"n": 1}, "priority": 5, "tags": {"k": "v"}}
    assert row.room == "lab"


async def test_an_id_of_one_s_own_is_the_task_s_and_any_text_is_kept_as_ascii(shop: AsyncEngine) -> None:
    mine = "0199aaaa-0000-7000-8000-000000000001"
    async with shop.begin() as connection:
        given = await outbox.submit(connection, note.bind(1, text="zwölf 🧵"), options=Options(id=mine))

    [row] = await rows(shop)
    assert given == row.id == mine
    assert row.body.isascii()
    assert json.loads(row.body)["payload"]["text"] == "zwölf 🧵"


async def test_what_can_t_be_sent_is_refused_before_it_is_written(shop: AsyncEngine) -> None:
    async with shop.begin() as connection:
        with pytest.raises(InvalidArguments, match="text"):
            await outbox.submit(connection, note.bind(1, text="\x00"))
        with pytest.raises(InvalidArguments, match=r"has no arguments: submit note\.bind"):
            await outbox.submit(connection, note)  # type: ignore[arg-type]
        with pytest.raises(InvalidArguments, match=r"takes a list of task\.bind\(…\)"):
            await outbox.submit_many(connection, note.bind(1, text="a"))  # type: ignore[arg-type]
        assert await outbox.submit_many(connection, []) == []

    assert await rows(shop) == []


async def test_the_wrong_kind_of_connection_is_told_which_function_is_meant(shop: AsyncEngine) -> None:
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(InvalidArguments, match="see also submit_sync"):
        await outbox.submit(connection, note.bind(1))  # type: ignore[arg-type]
    engine.dispose()
    with pytest.raises(InvalidArguments, match="see also await submit"):
        outbox.submit_sync(AsyncSession(shop), note.bind(1))  # type: ignore[arg-type]


async def test_the_room_of_the_environment_is_where_it_is_submitted_from(
    shop: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_ROOM", "lab")
    submitting._settings.cache_clear()
    try:
        async with shop.begin() as connection:
            await outbox.submit(connection, note.bind(1))
    finally:
        submitting._settings.cache_clear()

    assert [row.room for row in await rows(shop)] == ["lab"]


def test_the_table_belongs_to_the_user_s_metadata_once() -> None:
    metadata = sa.MetaData(schema="shop")

    assert outbox.table_in(metadata, "out") is outbox.table_in(metadata, "out")
    assert outbox.table_in(metadata, "out", schema="other").fullname == "other.out"


@pytest.mark.parametrize("dialect", [mssql.dialect(), mysql.dialect(), oracle.dialect()], ids=lambda d: d.name)
def test_the_statements_of_the_table_are_those_of_the_database(dialect: Any) -> None:
    said = outbox.ddl(dialect)

    assert said.startswith("CREATE TABLE treadle_outbox (")
    assert "CREATE INDEX ix_treadle_outbox_refused_at ON treadle_outbox (refused_at, seq);" in said


@pytest.mark.parametrize("name", ["x" * 49, "x" * 50, "x" * 63])
async def test_the_index_of_a_table_with_a_long_name_has_one_that_the_database_takes(
    empty_database_url: str, name: str
) -> None:
    """Of 50 characters and more SQLAlchemy refused to make it for PostgreSQL; where it was made, it is as it was."""
    engine = create_async_engine(async_url(empty_database_url))
    table = outbox.table_in(sa.MetaData(), name)

    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_table, table)
        await outbox.submit(connection, note.bind(1), table=table)
        [index] = await connection.run_sync(lambda given: sa.inspect(given).get_indexes(name))
    await engine.dispose()

    assert index["name"] in outbox.ddl(engine.dialect, table)
    if engine.dialect.name == "sqlite" or len(name) < 50:
        assert index["name"] == f"ix_{name}_refused_at"


def test_the_statements_of_a_table_whose_name_the_database_would_cut_are_refused() -> None:
    """PostgreSQL made one of another name of them, which no relay found."""
    postgres = sa.make_url("postgresql+asyncpg://").get_dialect()()

    assert "x" * 63 in outbox.ddl(postgres, outbox.table_in(sa.MetaData(), "x" * 63))
    with pytest.raises(sa.exc.IdentifierError, match="maximum length of 63 bytes"):
        outbox.ddl(postgres, outbox.table_in(sa.MetaData(), "ä" * 32))
    with pytest.raises(sa.exc.IdentifierError, match="maximum length of 63"):
        outbox.ddl(postgres, outbox.table_in(sa.MetaData(), "x" * 64))


@pytest.mark.inside
async def test_the_table_is_made_by_a_migration_that_alembic_writes(empty_database_url: str) -> None:
    """It named a type of the outbox's own, which the migration does not import."""
    from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    metadata = sa.MetaData()
    outbox.table_in(metadata)

    def migrate(connection: sa.Connection) -> Any:
        context = MigrationContext.configure(connection)
        written = render_python_code(produce_migrations(context, metadata).upgrade_ops)  # type: ignore[arg-type]
        exec(f"if True:\n    {written}", {"sa": sa, "mysql": mysql, "op": Operations(context)})
        return compare_metadata(context, metadata)

    engine = create_async_engine(async_url(empty_database_url))
    async with engine.begin() as connection:
        changes = await connection.run_sync(migrate)
        await outbox.submit(connection, note.bind(1))
        waiting = (await connection.run_sync(outbox.listed)).waiting
    await engine.dispose()

    assert changes == []
    assert waiting == 1


def test_a_registration_is_made_once_for_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(Task, "registration", lambda self, _settings: calls.append(self) or {})
    submitting._registration.cache_clear()
    try:
        [submitting._rows([note.bind(n)], None, None, Sealer(None)) for n in range(3)]
    finally:
        submitting._registration.cache_clear()

    assert calls == [note]
    assert orders.name == "orders"


async def test_a_trace_goes_with_the_row(shop: AsyncEngine) -> None:
    around = SpanContext(trace_id=0xABC, span_id=0xDEF, is_remote=True, trace_flags=TraceFlags(1))
    async with shop.begin() as connection:
        with trace.use_span(trace.NonRecordingSpan(around)):
            await outbox.submit(connection, note.bind(1))

    [row] = await rows(shop)
    assert json.loads(row.body)["traceparent"].split("-")[1] == f"{0xABC:032x}"


async def test_a_room_that_is_none_is_refused_at_once(shop: AsyncEngine) -> None:
    async with shop.begin() as connection:
        with pytest.raises(InvalidArguments, match="a:b"):
            await outbox.submit(connection, note.bind(1), room="a:b")

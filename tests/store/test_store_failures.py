"""What the store says of a database that fails: in a line, with what to do."""

import sqlite3
import traceback
from contextlib import AsyncExitStack, closing
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from tests.engine.conftest import Shop
from treadle_server.engine.engine import Engine
from treadle_server.errors import StoreUnavailable, ValidationFailed
from treadle_server.store.base import LostUpdate
from treadle_server.store.connections import READERS
from treadle_server.store.failures import FAILURES_EXPLAINED, described
from treadle_server.store.postgres.dedicated import DedicatedConnection
from treadle_server.store.sqlite.writer import InlineConnection
from treadle_server.store.store import SqlStore

pytestmark = pytest.mark.anyio

FULL = text(
    "DO $$ BEGIN RAISE disk_full USING MESSAGE = 'could not extend file', HINT = 'Check free disk space.'; END $$"
)
"""What PostgreSQL says when it can write no more."""

TOLD = (
    r"^the database's disk is full: free space on it \([^\n]*could not extend file\); nothing was changed, try again$"
)


@pytest.mark.postgres
async def test_a_full_disk_of_postgresql_is_told_as_one_of_sqlite_is(postgres_database: str) -> None:
    store = SqlStore(postgres_database)
    await store.open()

    with pytest.raises(StoreUnavailable, match=TOLD):
        async with store.write() as tx:
            await tx.connection.execute(FULL)
    with pytest.raises(StoreUnavailable, match=TOLD):
        async with store.read() as connection:
            await connection.execute(FULL)

    await store.close()


@pytest.mark.postgres
async def test_a_full_disk_is_told_likewise_by_a_connection_of_its_own(postgres_database: str) -> None:
    """As by NOTIFY, which writes to the disk itself: the relay said in two lines that the database does not answer."""
    dedicated = DedicatedConnection(postgres_database, lambda: None)

    with pytest.raises(StoreUnavailable, match=TOLD.partition(";")[0] + "$"):
        async with dedicated.lent() as connection:
            await connection.execute(str(FULL))

    await dedicated.close()


def test_a_connection_that_the_database_ended_is_told_in_plain_words() -> None:
    """Most of the refusals after `pg_terminate_backend` said this instead."""
    error = asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")

    assert described(error) == "the database does not answer (the connection was ended)"


def test_a_table_of_locks_that_is_full_is_told_with_what_to_raise() -> None:
    """It said that the database does not answer; PostgreSQL's own hint is on another line."""
    assert "raise max_locks_per_transaction" in described(asyncpg.OutOfMemoryError("out of shared memory"))


@pytest.mark.postgres
async def test_what_only_reads_and_is_broken_off_for_another_can_be_tried_again(postgres_database: str) -> None:
    """As where everything is serializable, or a standby replays what a reader still looks at."""
    store = SqlStore(postgres_database)
    await store.open()

    for state in ("40001", "40P01"):
        with pytest.raises(StoreUnavailable, match=r"nothing was changed, try again$"):
            async with store.read() as connection:
                await connection.execute(text(f"DO $$ BEGIN RAISE SQLSTATE '{state}'; END $$"))

    await store.close()


@pytest.mark.postgres
async def test_a_table_that_is_not_there_is_said_to_be_looked_for(old_url: str) -> None:
    """As in the midst of a restore, or under another search_path: each request was an internal error."""
    store = SqlStore(old_url)
    await store.open()
    async with store.write() as tx:
        await tx.connection.execute(text("ALTER TABLE meta RENAME TO former"))

    with pytest.raises(StoreUnavailable, match=r"^a table is missing: .* search_path, .*; nothing was changed"):
        async with store.write():
            pass

    await store.close()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("done", "said"),
    [
        ("ALTER TABLE meta RENAME value TO worth", "a column is missing: .*; `treadle doctor` says what is missing"),
        ("CREATE RULE away AS ON INSERT TO limits DO INSTEAD NOTHING", "a table is not Treadle's own .* a rule"),
    ],
)
async def test_what_was_done_to_a_table_is_told_while_a_server_runs(old_url: str, done: str, said: str) -> None:
    """Each request was an internal error, with a traceback; so it was below a schema that was put before."""
    store = SqlStore(old_url)
    await store.open()
    await _execute(old_url, done)

    with pytest.raises(StoreUnavailable, match=f"^{said}.*; nothing was changed, try again$"):
        async with store.write() as tx:
            await tx.connection.execute(text("INSERT INTO limits DEFAULT VALUES RETURNING num"))

    await store.close()


@pytest.mark.postgres
async def test_a_statement_that_was_prepared_before_a_table_was_altered_is_prepared_anew(
    old_url: str,
) -> None:
    """A rule was said to be the cause, or it was an internal error."""
    store = SqlStore(old_url)
    await store.open()
    everything = "SELECT * FROM webhooks"
    async with store.read() as connection, store.write() as tx:
        await connection.exec_driver_sql(everything)
        await tx.direct.fetch(everything)
    await _execute(old_url, "ALTER TABLE webhooks ADD team text")

    with pytest.raises(StoreUnavailable, match=r"^a table was altered .*; nothing was changed, try again$"):
        async with store.read() as connection:
            await connection.exec_driver_sql(everything)
    with pytest.raises(LostUpdate, match=r"^a table was altered"):  # which the engine tries again
        async with store.write() as tx:
            await tx.direct.fetch(everything)
    async with store.read() as connection, store.write() as tx:
        await connection.exec_driver_sql(everything)
        await tx.direct.fetch(everything)

    await store.close()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("default_transaction_read_only = on", "the database accepts no writes"),
        ("search_path = nowhere", "no schema to create tables in"),
    ],
)
async def test_a_start_in_a_database_that_is_set_up_otherwise_says_what_to_look_at(
    old_url: str, setting: str, said: str
) -> None:
    connection = await asyncpg.connect(old_url)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'ALTER DATABASE "{name}" SET {setting}')
    await connection.close()
    store = SqlStore(old_url)

    with pytest.raises(StoreUnavailable, match=said):
        await store.open()

    await store.close()


@pytest.mark.postgres
async def test_a_start_makes_no_tables_beside_those_of_a_schema_that_is_not_looked_at(old_url: str) -> None:
    """After a restore into another schema, or with another search_path, a server began with an empty second set."""
    store = SqlStore(old_url)
    await store.open()
    await store.close()
    await _execute(old_url, "ALTER SCHEMA public RENAME TO restored; CREATE SCHEMA public")

    with pytest.raises(ValidationFailed, match=r"tables are in the schema restored, .* search_path \(.*\): .* nothing"):
        await store.open()

    await store.close()
    await _execute(old_url, 'ALTER DATABASE "{name}" SET search_path = restored')
    await store.open()
    await store.close()


@pytest.mark.postgres
async def test_a_start_beside_another_treadle_of_the_database_says_that_one_of_them_has_no_leader(
    old_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The second one's tasks that waited for a time waited for ever, and nothing told of it."""
    store = SqlStore(old_url)
    await store.open()
    await store.close()
    assert "schemas" not in caplog.text
    await _execute(old_url, "CREATE SCHEMA second; CREATE TABLE second.lane_counts (lane bigint)")

    await store.open()

    assert "there are Treadle tables in the schemas public, second of one database" in caplog.text
    assert "give each its own database" in caplog.text
    await store.close()


async def _execute(url: str, statements: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statements.format(name=await connection.fetchval("SELECT current_database()")))
    await connection.close()


@pytest.mark.parametrize(
    ("code", "done"),
    [(sqlite3.SQLITE_FULL, "nothing was changed"), (sqlite3.SQLITE_IOERR, "whether it was done is unknown")],
)
def test_a_commit_for_which_the_disk_had_no_room_is_said_to_have_changed_nothing(code: int, done: str) -> None:
    """It was said not to be known, whereas its end is what was not written; of one that was not synced it is so."""
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = code

    with pytest.raises(StoreUnavailable, match=f"disk .*; {done}, try again$"), FAILURES_EXPLAINED:
        raise OperationalError("COMMIT", None, error)


async def test_a_damaged_file_is_said_to_be_damaged_or_not_readable(tmp_path: Path) -> None:
    """A sound file too whose disk is gone: who restored the backup at once lost what came after it."""
    path = tmp_path / "treadle.db"
    store = SqlStore(f"sqlite:///{path}")
    await store.open()
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'lane_counts'")
        [(size,)] = connection.execute("PRAGMA page_size")
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    store = SqlStore(f"sqlite:///{path}")
    await store.open()

    with pytest.raises(StoreUnavailable, match=r"^the database is damaged, or its disk can't be .* integrity_check"):
        async with store.write() as tx:
            assert isinstance(tx.connection, InlineConnection)
            tx.connection.fetch("SELECT * FROM lane_counts")
    with pytest.raises(StoreUnavailable, match=r"^the database is damaged"):
        async with store.read() as reading:
            await reading.execute(text("SELECT * FROM lane_counts"))
    async with store.read() as reading:
        assert (await reading.execute(text("SELECT count(*) FROM tasks"))).scalar_one() == 0

    await store.close()


async def test_who_waits_in_vain_for_a_connection_is_told_so_in_plain_words(tmp_path: Path) -> None:
    """As behind reads that take long, or a database that stands still: it was told of a pool, with a link."""
    store = SqlStore(f"sqlite:///{tmp_path / 'treadle.db'}")
    await store.open()
    pool = store._reader.pool
    pool._timeout = 0.01  # type: ignore[attr-defined]

    async with AsyncExitStack() as stack:
        for _ in range(READERS):
            await stack.enter_async_context(store.read())
        with pytest.raises(
            StoreUnavailable, match=r"^the database does not answer \(timed out waiting for a free connection"
        ):
            async with store.read():
                pass

    await store.close()


_TRIGGER = """
CREATE FUNCTION {name}() RETURNS trigger AS $$ BEGIN {does} RETURN NEW; END $$ LANGUAGE plpgsql;
CREATE TRIGGER {name} BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION {name}()
"""

ADDED = {
    "a column": (
        "ALTER TABLE tasks ADD COLUMN cost integer NOT NULL DEFAULT 1; ALTER TABLE tasks ALTER cost DROP DEFAULT",
        "the column cost of the table tasks",
    ),
    "a check": (
        "ALTER TABLE tasks ADD CONSTRAINT dear CHECK (weight > 1) NOT VALID",
        "the constraint dear of the table tasks",
    ),
    "a key": ("CREATE UNIQUE INDEX once ON tasks (job_name)", "the constraint once of the table tasks"),
    "a trigger": (
        _TRIGGER.format(name="audit", does="RAISE 'not %', NEW USING DETAIL = NEW.payload;"),
        "a trigger, whose function is audit,",
    ),
    "a trigger that fails": (
        _TRIGGER.format(name="audit", does="PERFORM NEW.payload::text::integer;"),
        "a trigger, whose function is audit,",
    ),
    "a trigger that divides by zero": (
        _TRIGGER.format(name="audit", does="PERFORM 1 / (NEW.weight - NEW.weight);"),
        "a trigger, whose function is audit,",
    ),
    "a trigger with a code of its own": (
        _TRIGGER.format(name="audit", does="RAISE 'not %', NEW USING ERRCODE = '45000';"),
        "a trigger, whose function is audit,",
    ),
    "a trigger with the code of a lost race": (
        _TRIGGER.format(name="audit", does="RAISE 'not %', NEW USING ERRCODE = '40001';"),
        "a trigger, whose function is audit,",
    ),
}


@pytest.mark.postgres
@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize("is_alone", [True, False])
async def test_what_somebody_added_to_the_tables_and_refuses_a_task_is_named_and_no_row_is_logged(
    old_url: str, caplog: pytest.LogCaptureFixture, added: str, is_alone: bool
) -> None:
    """It was an internal error, and in the log were PostgreSQL's details: the row that was refused."""
    statements, named = ADDED[added]
    store = SqlStore(old_url)
    await store.open()
    async with Engine(store).running() as engine:
        shop = Shop(engine)
        await shop.register()
        await shop.submit()
        await _execute(old_url, statements)
        if is_alone:
            await store.seek_exclusive()

        with pytest.raises(StoreUnavailable) as refused:
            await shop.submit(options={"priority": 1_234_567})

        assert str(refused.value).startswith(f"{named} refuses what Treadle writes: drop it, or have it accept that (")
        assert str(refused.value).endswith("; nothing was changed, try again")
        assert "1234567" not in caplog.text + str(refused.value)
        assert "Traceback" not in caplog.text
    await store.close()


KEPT_OUT = {
    "a trigger on tasks": (_TRIGGER.format(name="audit", does="RETURN NULL;"), "the trigger audit of the table tasks"),
    "a trigger on workers": (
        _TRIGGER.replace("ON tasks", "ON workers").format(name="audit", does="RETURN NULL;"),
        "the trigger audit of the table workers",
    ),
    "a rule": (
        "CREATE RULE away AS ON INSERT TO workers DO INSTEAD NOTHING",
        "the rule away of the table workers",
    ),
    "a trigger on jobs": (
        _TRIGGER.replace("ON tasks", "ON jobs").format(name="audit", does="RETURN NULL;"),
        "the trigger audit of the table jobs",
    ),
}


@pytest.mark.postgres
@pytest.mark.parametrize("added", KEPT_OUT)
async def test_what_keeps_rows_out_without_a_word_is_named_as_one_of_what_may_have_done_it(
    old_url: str, caplog: pytest.LogCaptureFixture, added: str
) -> None:
    """It was other writers that had been faster, or an internal error; and a worker was said to be there."""
    statements, named = KEPT_OUT[added]
    store = SqlStore(old_url)
    await store.open()
    async with Engine(store).running() as engine:
        shop = Shop(engine)
        await shop.register()
        await _execute(old_url, statements)

        with pytest.raises(StoreUnavailable) as refused:
            await (shop.submit() if "tasks" in named else shop.worker() if "workers" in named else shop.register("new"))

        assert f"were faster every time, or {named} keeps Treadle's rows out: drop it, or have" in str(refused.value)
        assert str(refused.value).endswith("; nothing was changed, try again")
        assert str(refused.value) in caplog.text
        assert "Traceback" not in caplog.text
    await store.close()


@pytest.mark.postgres
async def test_a_database_as_the_migrations_leave_it_has_nothing_added(old_url: str) -> None:
    store = SqlStore(old_url)
    await store.open()

    assert await store.additions() == []

    await _execute(old_url, f"{ADDED['a column'][0]}; {ADDED['a check'][0]}; {ADDED['a key'][0]}")
    assert await store.additions() == [
        "the column cost of the table tasks",
        "the constraint dear of the table tasks",
        "the constraint once of the table tasks",
    ]
    await store.close()


@pytest.mark.postgres
async def test_an_error_of_a_row_is_logged_without_the_row(old_url: str) -> None:
    store = SqlStore(old_url)
    await store.open()

    with pytest.raises(IntegrityError) as refused:
        async with store.write() as tx:
            for _ in range(2):
                await tx.connection.execute(text("INSERT INTO meta (key, value) VALUES ('secret', 'more')"))

    assert "secret" not in "".join(traceback.format_exception(refused.value)).replace("VALUES ('secret'", "")
    await store.close()


@pytest.mark.postgres
async def test_a_published_table_whose_rows_have_no_identity_is_told_as_what_was_done_to_it(old_url: str) -> None:
    """Each claim was an internal error; and whatever has this code was said to be a database that is closed."""
    store = SqlStore(old_url)
    await store.open()
    await _execute(old_url, "ALTER TABLE meta REPLICA IDENTITY NOTHING; CREATE PUBLICATION further FOR ALL TABLES")

    with pytest.raises(StoreUnavailable, match=r"^a table, .* can't be used as it is: .* REPLICA IDENTITY .* nothing"):
        async with store.write() as tx:
            await tx.connection.execute(text("UPDATE meta SET value = 'new'"))

    await store.close()


def test_a_database_that_is_closed_is_still_told_as_one() -> None:
    error = asyncpg.ObjectNotInPrerequisiteStateError("database is not currently accepting connections")

    assert "ALLOW_CONNECTIONS" in described(error)
    assert "ALLOW_CONNECTIONS" in described(DBAPIError(None, None, error))

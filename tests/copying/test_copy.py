"""`treadle copy`: every row comes along, a server goes on with them, and nothing else is ever left behind (F8)."""

import asyncio
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from tests.copying.conftest import KINDS, ONE, THERE_AND_BACK, Make, directions_and, everything, said
from tests.copying.site import fill, go_on
from treadle.cli.group import treadle
from treadle_server.copying import copy, postgres, sqlite
from treadle_server.copying.contents import LEFT_OUT, TABLES
from treadle_server.copying.copy import NotTheSame, TableProgress, copy_database
from treadle_server.errors import DatabaseIsNewer, StoreUnavailable, ValidationFailed
from treadle_server.store.migrations import HEAD
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import metadata
from treadle_server.store.urls import parse_url
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def nothing(_step: TableProgress) -> None:
    """Tell nobody."""


async def migrated(url: str) -> str:
    store = SqlStore(url)
    await store.open()
    await store.close()
    return url


async def execute(url: str, *statements: str) -> None:
    """Change a database by hand."""
    if url.startswith("sqlite"):
        with sqlite3.connect(sa.make_url(url).database or "") as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()
        return
    server = await asyncpg.connect(url)
    for statement in statements:
        await server.execute(statement)
    await server.close()


async def is_untouched(url: str) -> bool:
    """Whether nothing is there: no file, or no table."""
    if url.startswith("sqlite"):
        return files(url) <= {"-server"}
    server = await asyncpg.connect(url)
    found = await server.fetchval("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
    await server.close()
    return bool(found == 0)


def files(url: str) -> set[str]:
    """What the names of SQLite's files begin with the database's, and end with."""
    path = Path(sa.make_url(url).database or "")
    return {one.name.removeprefix(path.name) for one in path.parent.glob(f"{path.name}*")}


@pytest.mark.parametrize(("one", "other"), THERE_AND_BACK)
async def test_f8_a_server_goes_on_where_everything_was_copied_to_and_back(
    make: Make, tmp_path: Path, one: str, other: str
) -> None:
    here, there, back = make(one), make(other), make(one)
    async with serve(here, data_dir=tmp_path) as served:
        token = await fill(served, tmp_path)

    copied = await copy_database(here, there, nothing)
    before = await everything(here)
    assert without_counter(await everything(there)) == without_counter(before)
    assert copied.rows == sum(map(len, before.values()))
    async with serve(there, data_dir=tmp_path) as served:
        await go_on(served, token)
    await copy_database(there, back, nothing)

    after = await everything(there)
    assert without_counter(await everything(back)) == without_counter(after)
    assert all(len(after[name]) >= len(before[name]) for name in ("tasks", "runs", "artifacts", "task_logs", "tokens"))
    assert {name for name, rows in before.items() if rows} >= {
        *("jobs", "job_schemas", "lanes", "lane_counts", "tasks", "runs", "task_logs", "task_tags", "targets"),
        *("tokens", "signing_keys", "artifacts", "schedules", "webhooks", "failures", "meta"),
    }
    assert max(row[0] for row in before["tasks"]) < max(row[0] for row in after["tasks"])


def without_counter(found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """PostgreSQL's number of the next task stands in a sequence, SQLite's among the facts about the database."""
    return {**found, "meta": [row for row in found["meta"] if row[0] != "task_seq"]}


def test_every_table_is_copied_or_known_not_to_be() -> None:
    assert {*TABLES} | LEFT_OUT == {*metadata.tables.values()}
    assert {table.name for table in LEFT_OUT} == {"count_deltas", "servers"}


@pytest.mark.parametrize(("one", "other"), KINDS)
async def test_f8_the_number_of_a_removed_task_is_given_to_no_other(make: Make, one: str, other: str) -> None:
    here, there = await migrated(make(one)), make(other)
    if one == "sqlite":
        await execute(here, "INSERT INTO meta VALUES ('task_seq', '41')")
    else:
        await execute(here, "SELECT setval('treadle_task_seq', 41)")

    await copy_database(here, there, nothing)

    async with copy._source(parse_url(there)) as place:
        assert (await place.counters())["task_seq"] == 41


@pytest.mark.postgres
@pytest.mark.parametrize("other", ONE)
async def test_f8_counts_that_are_not_added_up_yet_are_on_the_way(make: Make, other: str) -> None:
    here, there = await migrated(make("postgres")), make(other)
    await execute(
        here,
        "INSERT INTO jobs (num, id, room, category, name, schema, schema_version, defaults, created_at, retain, paused,"
        " version) VALUES (1, gen_random_uuid(), 'r', 'tasks', 'x', '{}', 1, '{}', now(), true, false, 1)",
        "INSERT INTO lanes VALUES (1, 1, 'r', '')",
        "INSERT INTO lane_counts VALUES (1, 'pending', 0, 5)",
        "INSERT INTO count_deltas SELECT nextval('count_deltas_id'), 1, 'pending', 0, n FROM unnest(ARRAY[3, -1]) AS n",
        "INSERT INTO count_deltas VALUES (nextval('count_deltas_id'), 1, 'completed', 0, 1)",
    )

    await copy_database(here, there, nothing)

    assert (await everything(there))["lane_counts"] == [[1, "completed", 0, 1], [1, "pending", 0, 7]]


@pytest.mark.parametrize("which", ["FROM", "TO"])
@pytest.mark.parametrize("kind", ONE)
async def test_f8_no_copy_beside_a_server(
    make: Make, tmp_path: Path, kind: str, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "PATIENCE", 0.3)
    idle = await migrated(make("sqlite"))
    async with serve(make(kind), data_dir=tmp_path) as served:
        busy = served.settings.database_url
        pair = (busy, make("sqlite")) if which == "FROM" else (idle, busy)

        with pytest.raises(ValidationFailed, match=r"a server or another copy is using .*: stop it first"):
            await copy_database(*pair, nothing)


@pytest.mark.postgres
async def test_f8_a_server_that_does_not_lead_yet_is_noticed_too(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PATIENCE", 0.3)
    here = await migrated(make("postgres"))
    standby = await asyncpg.connect(here, server_settings={"application_name": "treadle"})
    try:
        with pytest.raises(ValidationFailed, match="a server or another copy is using"):
            await copy_database(here, make("sqlite"), nothing)
    finally:
        await standby.close()


@pytest.mark.parametrize("kind", ONE)
async def test_f8_a_target_with_rows_is_refused_and_left_as_it_is(make: Make, tmp_path: Path, kind: str) -> None:
    here, there = await migrated(make("sqlite")), make(kind)
    async with serve(there, data_dir=tmp_path):
        pass
    before = await everything(there)

    with pytest.raises(ValidationFailed, match="is not empty: there are rows in its table"):
        await copy_database(here, there, nothing)

    assert await everything(there) == before


@pytest.mark.parametrize("kind", ONE)
async def test_a_target_that_has_but_its_tables_is_taken(make: Make, kind: str) -> None:
    here, there = await migrated(make("sqlite")), await migrated(make(kind))

    await copy_database(here, there, nothing)

    assert await everything(there) == await everything(here)


def beside(file: Path) -> list[Path]:
    """Return the files beside this one whose names begin with its own."""
    return list(file.parent.glob(f"{file.name}?*"))


@pytest.mark.parametrize("kind", ONE)
async def test_tables_that_are_somebody_else_s_are_no_target(make: Make, kind: str) -> None:
    here, there = await migrated(make("sqlite")), make(kind)
    await execute(there, "CREATE TABLE jobs (n INTEGER)")

    with pytest.raises(
        ValidationFailed, match=r"has a table jobs that is not Treadle's: copy to a database of its own"
    ):
        await copy_database(here, there, nothing)


@pytest.mark.parametrize("is_treadle_s_too", [False, True])
async def test_a_file_in_which_another_program_has_a_table_is_left_as_it_is(
    make: Make, *, is_treadle_s_too: bool
) -> None:
    source, target = await migrated(make("sqlite")), make("sqlite")
    if is_treadle_s_too:
        await migrated(target)
    await execute(target, "CREATE TABLE orders (id INTEGER)", "INSERT INTO orders VALUES (7)")

    with pytest.raises(ValidationFailed, match="has a table orders that is not Treadle's"):
        await copy_database(source, target, nothing)

    path = Path(sa.make_url(target).database or "")
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT id FROM orders").fetchall() == [(7,)]
    connection.close()
    assert is_treadle_s_too or beside(path) == []


async def test_a_link_to_a_disk_that_is_not_mounted_is_left_as_it_is(make: Make, tmp_path: Path) -> None:
    source, link = await migrated(make("sqlite")), tmp_path / "link.db"
    link.symlink_to(tmp_path / "disk" / "treadle.db")

    with pytest.raises(ValidationFailed, match="can't be found: check that its disk is mounted"):
        await copy_database(source, f"sqlite:///{link}", nothing)

    assert link.is_symlink()
    assert beside(link) == []


@pytest.mark.parametrize("is_source", [False, True])
async def test_a_log_whose_file_is_empty_is_left_as_it_is(make: Make, tmp_path: Path, is_source: bool) -> None:
    """It may hold all tasks; reading the empty file beside it would have deleted it, and so would replacing it."""
    other, file = await migrated(make("sqlite")), tmp_path / "alone.db"
    file.touch()
    log = file.with_name("alone.db-wal")
    log.write_bytes(b"x" * 4096)
    urls = [f"sqlite:///{file}", other]

    with pytest.raises(ValidationFailed, match="put the file back"):
        await copy_database(*(urls if is_source else reversed(urls)), nothing)

    assert (file.stat().st_size, log.stat().st_size) == (0, 4096)


@pytest.mark.parametrize("kind", ONE)
async def test_f8_a_source_of_another_revision_is_told_what_to_do(make: Make, kind: str) -> None:
    here, there = await migrated(make(kind)), make("sqlite")

    await execute(here, "UPDATE alembic_version SET version_num = '0022'")
    with pytest.raises(
        ValidationFailed, match=rf"is of an older version \(revision 0022, not {HEAD}\): .*treadle migrate"
    ):
        await copy_database(here, there, nothing)
    await execute(here, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(DatabaseIsNewer):
        await copy_database(here, there, nothing)
    await execute(here, "DROP TABLE alembic_version")
    with pytest.raises(ValidationFailed, match="is not a Treadle database"):
        await copy_database(here, there, nothing)

    assert await is_untouched(there)


@pytest.mark.parametrize("kind", ONE)
def test_a_database_is_not_copied_onto_itself_which_no_command_line_can_mean(make: Make, kind: str) -> None:
    here = asyncio.run(migrated(make(kind)))
    same = (
        here.replace("sqlite:///", "sqlite:////.")
        if kind == "sqlite"
        else here.replace("postgresql:", "postgresql+asyncpg:")
    )

    refused = CliRunner().invoke(treadle, ["copy", here, same])

    assert refused.exit_code == 2
    assert "FROM and TO are the same database" in refused.stderr


@pytest.mark.parametrize(
    ("source", "error", "reason"),
    [
        ("sqlite:///{}/nowhere.db", ValidationFailed, r"there is no database .*nowhere\.db"),
        ("sqlite://", ValidationFailed, "names no file"),
        ("sqlite:///{}/text.db", StoreUnavailable, "the database's file is not an SQLite file"),
        ("mysql://x/y", ValidationFailed, "unsupported database 'mysql'"),
    ],
)
async def test_what_can_t_be_read_is_said(
    make: Make, tmp_path: Path, source: str, error: type[Exception], reason: str
) -> None:
    (tmp_path / "text.db").write_text("no database " * 100)

    with pytest.raises(error, match=reason):
        await copy_database(source.format(tmp_path), make("sqlite"), nothing)

    assert beside(tmp_path / "text.db") == []


@pytest.mark.parametrize("which", ["FROM", "TO"])
async def test_which_of_the_two_does_not_answer_is_said(make: Make, which: str) -> None:
    here, gone = await migrated(make("sqlite")), "postgresql://me:secret@127.0.0.1:1/gone"

    with pytest.raises(StoreUnavailable) as refused:
        await copy_database(*((gone, here) if which == "FROM" else (here, gone)), nothing)

    told = f"{which} (postgresql://me:***@127.0.0.1:1/gone): the database does not answer"
    assert str(refused.value).startswith(told)


async def test_what_fails_while_it_is_copied_is_said_of_the_one_that_is_read(make: Make) -> None:
    here = await migrated(make("sqlite"))
    await execute(here, "ALTER TABLE task_logs RENAME COLUMN message TO words")

    with pytest.raises(StoreUnavailable, match=r"^FROM \(.*\): the database rejects the statement"):
        await copy_database(here, make("sqlite"), nothing)


async def test_a_target_that_is_none_of_sqlite_s_gets_no_file_beside_it(make: Make, tmp_path: Path) -> None:
    source = await migrated(make("sqlite"))
    (tmp_path / "text.db").write_text("no database " * 100)

    with pytest.raises(StoreUnavailable, match="the database's file is not an SQLite file"):
        await copy_database(source, f"sqlite:///{tmp_path}/text.db", nothing)

    assert beside(tmp_path / "text.db") == []


@pytest.mark.parametrize(("one", "other", "how"), directions_and(signal.SIGKILL, signal.SIGINT))
async def test_f8_a_copy_that_is_killed_leaves_nothing_and_is_begun_anew(
    make: Make, one: str, other: str, how: signal.Signals
) -> None:
    here, there = await migrated(make(one)), make(other)
    text = "INSERT INTO meta (key, value) VALUES ('{n}', '{n}')"
    await execute(here, *(text.format(n=n) for n in range(50)))
    code = f"""
import os, signal
from treadle_server.copying import copy
verify = copy._verify
async def dies(*given):
    os.kill(os.getpid(), {int(how)})
    await verify(*given)
copy._verify = dies
from treadle.cli import main
main()
"""
    command = [sys.executable, "-c", code, "copy", here, there]

    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=100)

    if how == signal.SIGKILL:
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert files(there) == {"-server", "-copying"} if other == "sqlite" else await is_untouched(there)
    else:
        assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, "Error: stopped: nothing was left at TO")
        assert await is_untouched(there)
    await copy_database(here, there, nothing)
    assert await everything(there) == await everything(here)


async def test_f8_what_a_killed_copy_has_written_is_not_gone_on_with(make: Make) -> None:
    here, there = await migrated(make("sqlite")), make("sqlite")
    await execute(here, "INSERT INTO meta VALUES ('a', '1')")
    left = f"{sa.make_url(there).database}{sqlite.UNFINISHED}"
    shutil.copyfile(sa.make_url(here).database or "", left)
    await execute(f"sqlite:///{left}", "UPDATE meta SET key = 'b'")

    await copy_database(here, there, nothing)

    assert [row[0] for row in (await everything(there))["meta"]] == ["a"]
    assert files(there) <= {"", "-server", "-wal", "-shm"}


@pytest.mark.parametrize(("one", "other", "fault"), directions_and("lost", "changed"))
async def test_f8_what_is_not_the_same_when_it_is_read_again_is_not_kept(
    make: Make, one: str, other: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = await migrated(make(one)), make(other)
    await execute(here, "INSERT INTO meta VALUES ('a', '1')", "INSERT INTO meta VALUES ('b', '2')")
    kind: Any = sqlite.SqliteDestination if other == "sqlite" else postgres.PostgresDatabase
    write = kind.write

    async def faulty(self: Any, table: sa.Table, rows: Any) -> None:
        first, *others = rows
        await write(self, table, others if fault == "lost" else [(first[0], "9"), *others])

    monkeypatch.setattr(kind, "write", faulty)
    with pytest.raises(NotTheSame, match=r"meta differs when it is read back \(\d rows with checksum"):
        await copy_database(here, there, nothing)
    monkeypatch.undo()

    assert await is_untouched(there)


@pytest.mark.postgres
async def test_a_row_whose_task_was_deleted_by_hand_is_named(make: Make) -> None:
    here, there = await migrated(make("postgres")), make("sqlite")
    await execute(
        here,
        "INSERT INTO runs (task_seq, run_id, status, claimed_at, ended_at) VALUES (7, 0, 'completed', now(), now())",
    )

    with pytest.raises(ValidationFailed, match="a row of runs refers to a row of tasks that does not exist"):
        await copy_database(here, there, nothing)

    assert await is_untouched(there)


@pytest.mark.parametrize("moment", ["'yesterday'", "9223372036854775807"])
async def test_a_row_that_its_table_can_t_have_is_told_by_its_table(make: Make, moment: str) -> None:
    here, there = await migrated(make("sqlite")), make("sqlite")
    await execute(here, f"INSERT INTO signing_keys (id, secret, created_at) VALUES ('k', 's', {moment})")

    with pytest.raises(ValidationFailed, match=r"signing_keys has an invalid row .*by hand"):
        await copy_database(here, there, nothing)

    assert await is_untouched(there)


async def test_of_a_table_that_is_missing_it_is_said_where_to_look(make: Make) -> None:
    here, there = await migrated(make("sqlite")), make("sqlite")
    await execute(here, "DROP TABLE tokens")

    with pytest.raises(StoreUnavailable, match=r"treadle doctor.*no such table: tokens"):
        await copy_database(here, there, nothing)

    assert await is_untouched(there)


async def test_f8_no_server_starts_on_a_file_while_it_is_copied(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = await migrated(make("sqlite")), make("sqlite")
    refused: list[str] = []
    verify = copy._verify

    async def meanwhile(*given: Any) -> None:
        for url in (here, there):
            with pytest.raises(Exception, match="another server is using") as told:
                async with serve(url):
                    pytest.fail("it started")
            refused.append(str(told.value))
        await verify(*given)

    monkeypatch.setattr(copy, "_verify", meanwhile)
    await copy_database(here, there, nothing)

    assert len(refused) == 2


@pytest.mark.postgres
async def test_f8_a_server_that_starts_on_postgresql_waits_for_the_copy(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can write nothing before: the lock that all servers' transactions share is held from the first look on."""
    here, there = await migrated(make("postgres")), make("postgres")
    verify, starting = copy._verify, list["asyncio.Task[str]"]()

    async def meanwhile(*given: Any) -> None:
        starting.extend(asyncio.create_task(migrated(url)) for url in (here, there))
        done, _ = await asyncio.wait(starting, timeout=1)
        assert not done
        await verify(*given)

    monkeypatch.setattr(copy, "_verify", meanwhile)
    await copy_database(here, there, nothing)

    assert await asyncio.gather(*starting) == [here, there]


def test_the_command_says_how_far_it_is_and_what_was_copied(make: Make) -> None:
    here, there = asyncio.run(migrated(make("sqlite"))), make("sqlite")
    asyncio.run(execute(here, "INSERT INTO meta VALUES ('a', '1')"))

    done = CliRunner().invoke(treadle, ["copy", here, there])
    refused = CliRunner().invoke(treadle, ["copy", here, there])
    told = json.loads(CliRunner().invoke(treadle, ["copy", here, make("sqlite"), "--json"]).stdout)

    assert done.stderr.splitlines() == ["copied 1 of 1 rows of meta", "verified 1 of 1 rows of meta"]
    table, summary = done.stdout.splitlines()
    assert table.split()[:2] == ["meta", "1"]
    assert summary.startswith("1 row copied, read back and compared in ")
    assert refused.exit_code == 1
    assert refused.stderr.endswith("that creates rows too)\n")
    assert told["tables"]["meta"] == {"rows": 1, "checksum": table.split()[2]}
    assert said(there) == said(here)


def test_a_copied_file_is_its_user_s_alone(make: Make) -> None:
    here, there = asyncio.run(migrated(make("sqlite"))), make("sqlite")

    asyncio.run(copy_database(here, there, nothing))

    assert Path(sa.make_url(there).database or "").stat().st_mode & 0o777 == 0o600


async def test_batches_end_by_rows_and_by_their_text() -> None:
    from treadle_server.copying import contents

    async def rows() -> AsyncIterator[Any]:
        for size in (1, contents.MOST_CHARACTERS, 1, contents.MOST_CHARACTERS - 1, 1):
            yield ("x" * size,)
        for n in range(contents.MOST_ROWS):
            yield (n,)

    sizes = [len(batch) async for batch in contents.batched(rows())]

    assert sizes == [2, 2, contents.MOST_ROWS, 1]

"""The database as people read it: the views and queries of docs/database.md (T9)."""

import re
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from treadle.wire.status import Reason
from treadle_server.engine.commands import StepReport
from treadle_server.store.tables import metadata

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs/database.md").read_text()
QUERIES = re.findall(r"```sql\n(.*?);\n```", PAGE, re.DOTALL)


async def rows(shop, query: str) -> list[dict[str, Any]]:
    async with shop.engine.store.read() as connection:
        return [dict(row) for row in (await connection.execute(sa.text(query.replace(":", r"\:")))).mappings()]


async def history(shop, clock) -> None:
    """One task that failed in its second run, one that completed after 2 s, one that sleeps, and one that waits."""
    worker = await shop.worker(name="press", concurrency=1)
    await shop.submit(options={"max_retries": 1, "retry_base": 0})
    for reason in ("first", "second"):
        [task] = await shop.claim(worker)
        await shop.report(task, "started")
        clock.advance(1)
        await shop.report(task, "failed", reason=Reason.ERROR, error=reason, traceback="Traceback …")
    await shop.submit()
    [task] = await shop.claim(worker)
    await shop.report(task, "started")
    clock.advance(2)
    await shop.report(task, "completed", result='{"x":1}')
    await shop.submit()
    [task] = await shop.claim(worker)
    await shop.report(task, "started")
    await shop.report(task, "suspended", step=StepReport(name="sleep", occurrence=0, seconds=1_000))
    await shop.submit(tags='{"kind":"nightly"}')


async def test_the_three_queries_of_the_page_answer_their_questions_t9(shop, clock) -> None:
    await history(shop, clock)

    failed, spent, nightly = [await rows(shop, query) for query in QUERIES]

    assert [(row["job"], row["worker"], row["attempts"], row["error"]) for row in failed] == [
        ("@global:tasks:noop", "press", 2, "second")
    ]
    [row] = spent
    assert (row["runs"], row["failed"]) == (4, 2)
    assert (float(row["mean"]), float(row["longest"])) == (1.0, 2.0)
    assert [(row["status"], row["n"]) for row in nightly] == [("pending", "0" if is_postgres(shop) else 0)]


def is_postgres(shop) -> bool:
    return shop.engine.store.dialect == "postgresql"


async def test_instants_and_json_are_readable_on_both_databases_t9(shop, clock) -> None:
    await history(shop, clock)

    task = (await rows(shop, "SELECT * FROM treadle_tasks WHERE status = 'completed'"))[0]
    run = (await rows(shop, "SELECT * FROM treadle_runs WHERE status = 'completed'"))[0]

    times = (task["started_at"], task["completed_at"], run["ended_at"])
    if is_postgres(shop):
        assert all(isinstance(at, datetime) for at in times)
        [[kind]] = [list(row.values()) for row in await rows(shop, "SELECT jsonb_typeof(result) FROM treadle_tasks "
                                                             "WHERE status = 'completed'")]  # fmt: skip
        assert kind == "object"
    else:
        assert times == ("2026-01-01T12:00:02.000Z", "2026-01-01T12:00:04.000Z", "2026-01-01T12:00:04.000Z")
        assert task["result"] == '{"x":1}'


async def test_the_page_names_every_table_and_every_column_of_the_views_t9(shop) -> None:
    def columns(connection: sa.Connection) -> dict[str, set[str]]:
        found = sa.inspect(connection)
        return {view: {column["name"] for column in found.get_columns(view)} for view in found.get_view_names()}

    async with shop.engine.store.read() as connection:
        views = await connection.run_sync(columns)

    assert set(views) == {"treadle_tasks", "treadle_runs"}
    for view, names in views.items():
        [table] = re.findall(rf"\| column of `{view}` .*?\n\n", PAGE, re.DOTALL)
        described = {
            name for line in table.strip().splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])
        }
        assert described == names
    listed = PAGE[PAGE.index("| table |") :]
    assert {table for table in metadata.tables if f"`{table}`" not in listed} == set()


def test_a_database_file_is_read_beside_the_server_by_the_plain_library_t9(tmp_path) -> None:
    """What `sqlite3 -readonly` does."""
    from treadle_server.testing import serve_in_thread

    with serve_in_thread(data_dir=tmp_path):
        database = sqlite3.connect(f"file:{tmp_path / 'treadle.db'}?mode=ro", uri=True)
        try:
            assert database.execute("SELECT count(*) FROM treadle_tasks").fetchone() == (0,)
            with pytest.raises(sqlite3.OperationalError):
                database.execute("DELETE FROM tasks")
        finally:
            database.close()


async def test_the_schema_goes_back_a_revision_and_forth_again(store) -> None:
    from alembic import command

    from treadle_server.store.migrations import config_for, upgrade

    async with store.write() as tx:
        await tx.connection.run_sync(lambda connection: command.downgrade(config_for(connection), "0001"))
        assert (await tx.connection.execute(sa.text("SELECT count(run) FROM treadle_tasks"))).scalar() == 0
        await tx.connection.run_sync(upgrade)
        assert (await tx.connection.execute(sa.text("SELECT count(attempts) FROM treadle_tasks"))).scalar() == 0

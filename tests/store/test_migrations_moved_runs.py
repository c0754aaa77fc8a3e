"""Runs of older databases: those that their tasks' rows tell as well are moved there by 0030, and none is changed."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from tests.store import histories
from treadle_server.domain.tasks import RUN_FIELDS
from treadle_server.store.migrations import config_for
from treadle_server.store.past_runs import past_runs
from treadle_server.store.tables import runs
from treadle_server.store.urls import parse_url

pytestmark = pytest.mark.anyio

BEFORE, AFTER = "0029", "0030"

# What the task has used in all, what of that it says to be of earlier runs, and what each run has used; whether the
# last one moves.
USED: dict[str, tuple[float | None, float | None, list[float | None], bool]] = {
    "nothing": (None, None, [None], True),
    "by one run": (2.5, 2.5, [2.5], True),
    "by two runs": (0.75, 0.75, [0.5, 0.25], True),
    "by two runs, as the fast path left it": (0.75, 0.5, [0.5, 0.25], True),
    "by the first run alone": (0.5, 0.5, [0.5, None], True),
    "what rounding would change": (1.0, 1.0, [1.0, 1e-20], False),
    "zero": (0.0, 0.0, [0.0], True),
    "zero after some": (0.5, 0.5, [0.5, 0.0], False),
}
OTHERS: dict[str, dict[str, Any]] = {
    "with an error": {"error": "said all the same"},
    "by another worker": {"worker_id": histories.named(91)},
    "of an old server": {"digest": None},
}


def filled(connection: sa.Connection) -> set[int]:
    """Put in completed tasks and their runs; return the numbers of those tasks whose last run is to move."""
    command.upgrade(config_for(connection), BEFORE)
    for name in ("jobs", "lanes", "workers"):
        for row in histories.ROWS[name]:
            histories.put(connection, name, row)
    moving = set()
    for seq, (usage, usage_before, spent, moves) in enumerate(USED.values(), 20):
        task, run = histories.completed(seq, run_id=len(spent) - 1, usage=usage, usage_before=usage_before)
        failed = {"status": "failed", "reason": "error", "error": "no"}
        histories.put(connection, "tasks", task)
        for run_id, used in enumerate(spent):
            ending = {} if run_id == len(spent) - 1 else failed
            histories.put(connection, "runs", run | {"run_id": run_id, "usage": used} | ending)
        moving |= {seq} if moves else set()
    for seq, differs in enumerate(OTHERS.values(), 40):
        task, run = histories.completed(seq)
        histories.put(connection, "tasks", task)
        histories.put(connection, "runs", run | differs)
    task, run = histories.completed(50, settled=True)
    histories.put(connection, "tasks", task)
    histories.put(connection, "runs", run)
    return moving


def all_of(connection: sa.Connection, rows: Any) -> list[tuple[Any, ...]]:
    found = connection.execute(sa.select(*(rows.c[name] for name in RUN_FIELDS)))
    return sorted((tuple(row) for row in found), key=lambda row: row[:2])


def check(connection: sa.Connection) -> None:
    moving = filled(connection)
    before = all_of(connection, runs)

    command.upgrade(config_for(connection), AFTER)

    last = {row[0]: row[1] for row in before}
    left = [row[:2] for row in before if not (row[0] in moving and row[1] == last[row[0]])]
    assert [row[:2] for row in all_of(connection, runs)] == left
    assert all_of(connection, past_runs()) == before
    shown = connection.execute(sa.text("SELECT task_id, run, status, usage FROM treadle_runs")).all()
    assert len(shown) == len(before)
    assert sorted(str(row.usage) for row in shown) == sorted(str(row[RUN_FIELDS.index("usage")]) for row in before)

    command.downgrade(config_for(connection), BEFORE)

    assert all_of(connection, runs) == before
    assert connection.execute(sa.text("SELECT count(*) FROM treadle_runs")).scalar() == len(before)


async def check_at(url: str) -> None:
    engine = create_async_engine(parse_url(url), poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(check)
    await engine.dispose()


async def test_0030_moves_what_a_tasks_row_can_tell_and_changes_no_run_on_sqlite_e12(tmp_path: Path) -> None:
    await check_at(f"sqlite:///{tmp_path / 'old.db'}")


@pytest.mark.postgres
async def test_0030_moves_what_a_tasks_row_can_tell_and_changes_no_run_on_postgresql_e12(old_url: str) -> None:
    await check_at(old_url)

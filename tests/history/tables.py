"""What the tables say at the end, and nothing between them and whoever reads it but SQL."""

import json
from typing import Any

import sqlalchemy as sa

from tests.history.records import RunRow, StepRow, TaskRow
from treadle_server.store.past_runs import past_runs
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import task_steps, tasks
from treadle_server.store.task_rows import select_tasks


async def read_tables(url: str) -> tuple[list[TaskRow], list[RunRow]]:
    """Read all tasks, and all runs: those that are over, and those that are not."""
    store = SqlStore(url)
    try:
        async with store.read() as connection:
            return await read_from(connection)
    finally:
        await store.close()


async def read_steps(url: str) -> list[StepRow]:
    """Read all steps that tasks keep."""
    store = SqlStore(url)
    asked = sa.select(task_steps, tasks.c.id).join_from(task_steps, tasks, task_steps.c.task_seq == tasks.c.seq)
    try:
        async with store.read() as connection:
            return [_step(row) for row in (await connection.execute(asked)).mappings()]
    finally:
        await store.close()


async def read_from(connection: Any) -> tuple[list[TaskRow], list[RunRow]]:
    """Read them on a connection."""
    every = select_tasks()
    rows = [_task(row) for row in (await connection.execute(every)).mappings()]
    ended = past_runs()
    asked = sa.select(ended, tasks.c.id).join_from(ended, tasks, ended.c.task_seq == tasks.c.seq)
    return rows, [_run(row) for row in (await connection.execute(asked)).mappings()]


def _task(row: sa.RowMapping) -> TaskRow:
    plain = {name: row[name] for name in _PLAIN}
    made = row["created_at"].timestamp()
    written = {name: _read(row[name]) for name in ("payload", "result")}
    return TaskRow(id=str(row["id"]), status=str(row["status"]), created_at=made, **plain, **written)


_PLAIN = (
    "seq",
    "version",
    "priority",
    "target",
    "room",
    "reason",
    "lease_seconds",
    "max_retries",
    "max_requeues",
    "settled",
)


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _run(row: sa.RowMapping) -> RunRow:
    return RunRow(str(row["id"]), row["run_id"], str(row["status"]), row["reason"], row["claimed_at"].timestamp())


def _step(row: sa.RowMapping) -> StepRow:
    return StepRow(str(row["id"]), row["name"], row["occurrence"], row["kind"], _read(row["result"]))

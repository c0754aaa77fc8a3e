"""Databases with as many rows as one likes, made inside the database itself, without statistics."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg

from treadle_server.store.tables import task_specs, tasks

JOBS = 100
"""Jobs, and lanes: each has one."""

START = datetime(2026, 1, 1, tzinfo=UTC)
_START_MICROS = int(START.timestamp()) * 1_000_000

_TEXTS = {"room": "@global", "submitter": "admin", "payload": "{}", "on_failure": "hold"}
_NUMBERS = {
    "priority": 0, "max_retries": 0, "max_requeues": 0, "retry_base": 5, "retry_multiplier": 2,
    "retry_randomization": 0, "lease_seconds": 60, "start_timeout": 60, "heartbeat_increment": 60, "schema_version": 1,
    "weight": 1, "version": 1, "run_id": -1, "retry_count": 0, "requeue_count": 0,
}  # fmt: skip
_FLAGS = ("blocked", "unfenced", "cancel_requested", "settled")
_TURN = f"n / {JOBS} % 2 = 0"
"""Every other round of the jobs is completed, so that done and waiting tasks lie evenly among each other."""

_COMMON = {
    "seq": "n",
    "job_num": f"n % {JOBS} + 1",
    "lane": f"n % {JOBS} + 1",
    "job_name": f"'@global:tasks:job' || (n % {JOBS})",
    "status": f"CASE WHEN {_TURN} THEN 'completed' ELSE 'pending' END",
    **{name: f"'{text}'" for name, text in _TEXTS.items()},
    **{name: str(number) for name, number in _NUMBERS.items()},
    **dict.fromkeys(_FLAGS, "false"),
}
_SQLITE = _COMMON | {
    "id": "printf('%08x-0000-7000-8000-%012x', n, n)",
    "content_hash": "x''",
    **dict.fromkeys(("due_at", "created_at", "updated_at"), f"{_START_MICROS} + n * 1000"),
    "completed_at": f"CASE WHEN {_TURN} THEN {_START_MICROS} END",
}
_INSTANT = f"timestamptz '{START.isoformat()}'"
_POSTGRES = _COMMON | {
    "id": "(lpad(to_hex(n), 8, '0') || '-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid",
    "content_hash": "''::bytea",
    "payload": "'{}'::jsonb",
    **dict.fromkeys(("due_at", "created_at", "updated_at"), f"{_INSTANT} + n * interval '1 millisecond'"),
    "completed_at": f"CASE WHEN {_TURN} THEN {_INSTANT} END",
}

_JOBS = """
INSERT INTO jobs (num, id, room, category, name, schema, schema_version, defaults, created_at, retain, paused, version)
SELECT n + 1, {id}, '@global', 'tasks', 'job' || n, '{{}}', 1, '{{}}', {now}, true, false, 1 FROM {line}
"""
_LANES = "INSERT INTO lanes (id, job_num, room, pool) SELECT n + 1, n + 1, '', '' FROM {line}"
_COUNTS = """
INSERT INTO lane_counts (lane, status, priority, n)
SELECT n + 1, status, 0, {each} FROM {line}, (SELECT 'completed' AS status UNION ALL SELECT 'pending') AS both_of
"""


def _inserts(columns: dict[str, str], line: str) -> Iterator[str]:
    for table in (tasks, task_specs):
        own = {name: value for name, value in columns.items() if name in table.c}
        yield f"INSERT INTO {table.name} ({', '.join(own)}) SELECT {', '.join(own.values())} FROM {line}"


def load_sqlite(path: Path, rows: int) -> None:
    """Put `rows` tasks into an empty database, half of them completed; the indexes are made afterwards."""

    def line(n: int) -> str:
        counted = f"WITH RECURSIVE line (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM line WHERE n < {n - 1})"
        return f"({counted} SELECT n FROM line)"

    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-200000", "ignore_check_constraints=ON"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    indexes = connection.execute(
        "SELECT name, sql FROM sqlite_master"
        " WHERE type = 'index' AND tbl_name IN ('tasks', 'task_specs') AND sql IS NOT NULL"
    ).fetchall()
    connection.execute("BEGIN")
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    connection.execute(_JOBS.format(id=_SQLITE["id"], now=_START_MICROS, line=line(JOBS)))
    connection.execute(_LANES.format(line=line(JOBS)))
    connection.execute(_COUNTS.format(each=rows // JOBS // 2, line=line(JOBS)))
    for statement in _inserts(_SQLITE, line(rows)):
        connection.execute(statement)
    for _, statement in indexes:
        connection.execute(statement)
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.close()


async def load_postgres(url: str, rows: int) -> None:
    """Put `rows` tasks into an empty database, half of them completed; nothing analyzes it, now or later."""
    connection = await asyncpg.connect(url)
    try:
        await open_postgres(connection, each=rows // JOBS // 2)
        await fill_postgres(connection, 0, rows)
    finally:
        await connection.close()


async def open_postgres(connection: "asyncpg.Connection[Any]", *, each: int) -> None:
    """Make the jobs of an empty database, with as many tasks of `each` kind in their counts."""
    line = f"generate_series(0, {JOBS - 1}) AS line (n)"
    # Neither statistics nor a map of visible pages: as after a burst, which no vacuum has seen.
    for table in ("tasks", "task_specs"):
        await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    async with connection.transaction():
        await connection.execute(_JOBS.format(id=_POSTGRES["id"], now=_INSTANT, line=line))
        await connection.execute(_LANES.format(line=line))
        await connection.execute(_COUNTS.format(each=each, line=line))


async def fill_postgres(connection: "asyncpg.Connection[Any]", first: int, end: int) -> None:
    """Put tasks in by the numbers from `first` to before `end`."""
    async with connection.transaction():
        await connection.execute("SET LOCAL synchronous_commit = off")
        # Foreign keys would be looked up for each row.
        await connection.execute("SET LOCAL session_replication_role = replica")
        for statement in _inserts(_POSTGRES, f"generate_series({first}, {end - 1}) AS line (n)"):
            await connection.execute(statement)


def now_of(rows: int) -> datetime:
    """Return an instant at which everything is due."""
    return START + timedelta(milliseconds=rows)


def seq_of(lane: int, place: int) -> int:
    """Return the number of the task at the 1-based place of a lane's queue."""
    return lane - 1 + JOBS * (2 * place - 1)

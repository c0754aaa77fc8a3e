"""Measures how long the newest migration takes over very many completed tasks: `python -m tests.bench.upgrades --help`.

The database is made as the revision before it leaves one: each task has completed at its first run, which has a row.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa
from alembic import command
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from tests.bench.report import show
from tests.embedded import embedded_postgres
from tests.store import histories
from treadle_server.store import migrations
from treadle_server.store.urls import parse_url

BEFORE = migrations.REVISIONS[-2]

_NUMBERS = {
    "sqlite": "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT i FROM n)",
    "postgresql": "(SELECT generate_series(1, {count}) AS i)",
}
_ID = {
    "sqlite": "printf('00000000-0000-7000-9000-%012d', i)",
    "postgresql": "lpad(i::text, 32, '0')::uuid",
}
FIRST = 1000
"""The number of the task that all others are copies of."""


def fill(connection: sa.Connection, count: int) -> None:
    """Make a database of the revision before with so many completed tasks."""
    command.upgrade(migrations.config_for(connection), BEFORE)
    for name in ("jobs", "lanes", "workers"):
        for row in histories.ROWS[name]:
            histories.put(connection, name, row)
    task, run = histories.completed(FIRST, result=histories.Written('{"x": 1}'))
    histories.put(connection, "tasks", task)
    histories.put(connection, "runs", run)
    kind = connection.dialect.name
    numbers = _NUMBERS[kind].format(count=count)
    for table, names in (("tasks", list(task)), ("runs", list(run))):
        other = {"seq": f"{FIRST} + i", "task_seq": f"{FIRST} + i", "id": _ID[kind]}
        values = ", ".join(other.get(name, name) for name in names)
        key = "seq" if table == "tasks" else "task_seq"
        connection.exec_driver_sql(
            f"INSERT INTO {table} ({', '.join(names)})"
            f" SELECT {values} FROM {table}, {numbers} AS numbers WHERE {key} = {FIRST}"
        )


async def measure(url: str, count: int) -> float:
    """Return the seconds from the migration's begin to the end of its commit."""
    engine = create_async_engine(parse_url(url), poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(fill, count)
    began = time.perf_counter()
    async with engine.begin() as connection:
        await connection.run_sync(migrations.upgrade)
    seconds = time.perf_counter() - began
    await engine.dispose()
    return seconds


@contextmanager
def database(kind: str, directory: Path) -> Iterator[str]:
    """Yield the URL of a database without a table."""
    if kind == "sqlite":
        yield f"sqlite:///{directory / 'treadle.db'}"
        return
    server = embedded_postgres().get_server(directory, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


def main() -> None:
    """Measure, and print a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=sorted(_NUMBERS), default="sqlite")
    parser.add_argument("--count", type=int, default=1_000_000)
    options = parser.parse_args()
    with TemporaryDirectory() as directory, database(options.database, Path(directory)) as url:
        seconds = asyncio.run(measure(url, options.count))
    row = {"tasks": options.count, "seconds": seconds}
    show(f"Migration {migrations.HEAD} on {options.database}", [row], {"within 3 minutes": seconds < 180})


if __name__ == "__main__":
    main()

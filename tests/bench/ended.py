"""Measures what tasks that have ended cost those that come: `python -m tests.bench.ended --help`.

A drain and lone tasks, beside as many ended ones as one likes. A first task is run and completed as any other; the rest
are copies of it, which the database makes itself: to have ten million run takes a quarter of an hour.
"""

import argparse
import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg

from tests.bench.report import show
from treadle_bench.cases.drains import drain, preload, workers_of
from treadle_bench.cases.submits import LATENCIES, measure_latency
from treadle_bench.databases import open_databases
from treadle_bench.figures import POSTGRESQL, SQLITE, percentile
from treadle_bench.harness import open_harness
from treadle_bench.testbed import Testbed

PORTION = 500_000
"""Tasks that are copied in one transaction."""

FIRST = 10_000_000
"""The number of the first copy, less one: those that are drained meanwhile have smaller ones, or greater than all."""

TABLES = ("tasks", "task_specs")

MODEL = "SELECT seq, lane FROM tasks WHERE status = 'completed' ORDER BY seq LIMIT 1"

COLUMNS = "SELECT column_name FROM information_schema.columns WHERE table_name = $1 AND table_schema = 'public'"


def _copied(table: str, names: list[str], model: int, identity: str, numbers: str) -> str:
    own = {"seq": "number", "id": identity}
    values = ", ".join(own.get(name, f"{table}.{name}") for name in names)
    return f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table}, {numbers} WHERE seq = {model}"


def _portions(first: int, count: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + count, PORTION):
        yield start + 1, min(start + PORTION, first + count)


def copy_in_sqlite(path: Path, first: int, count: int) -> None:
    """Make `count` copies of a completed task, numbered behind `first`."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("synchronous=OFF", "cache_size=-200000", "foreign_keys=OFF"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    model, lane = connection.execute(MODEL).fetchone()
    names = {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in TABLES}
    for start, end in _portions(first, count):
        counting = f"SELECT {start} UNION ALL SELECT number + 1 FROM n WHERE number < {end}"
        connection.execute("BEGIN")
        for table in TABLES:
            identity = "printf('00000000-0000-7000-9000-%012d', number)"
            copied = _copied(table, names[table], model, identity, "n")
            connection.execute(f"WITH RECURSIVE n (number) AS ({counting}) {copied}")
        connection.execute("COMMIT")
    connection.execute("UPDATE lane_counts SET n = n + ? WHERE lane = ? AND status = 'completed'", (count, lane))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


async def copy_in_postgres(url: str, first: int, count: int) -> None:
    """Make `count` copies of a completed task, numbered behind `first`."""
    connection = await asyncpg.connect(url)
    try:
        # Foreign keys are looked up by triggers, for each row.
        await connection.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        model, lane = await connection.fetchrow(MODEL)
        columns = (
            "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped"
        )
        names = {name: [row[0] for row in await connection.fetch(columns, name)] for name in TABLES}
        for start, end in _portions(first, count):
            numbers = f"generate_series({start}, {end}) AS n (number)"
            for table in TABLES:
                identity = "lpad(number::text, 32, '0')::uuid"
                await connection.execute(_copied(table, names[table], model, identity, numbers))
        added = "UPDATE lane_counts SET n = n + $1 WHERE lane = $2 AND status = 'completed'"
        await connection.execute(added, count, lane)
        await connection.execute("SELECT setval('treadle_task_seq', $1)", first + count)
    finally:
        await connection.close()


def _copier(kind: str, home: Mapping[str, str], directory: Path) -> Callable[[int, int], None]:
    if kind == POSTGRESQL:
        url = home["TREADLE_DATABASE_URL"].replace("+asyncpg", "")
        return lambda first, count: asyncio.run(copy_in_postgres(url, first, count))
    [path] = directory.rglob("*.db")
    return lambda first, count: copy_in_sqlite(path, first, count)


def measure(kind: str, sizes: list[int], count: int, repeats: int, postgres_url: str | None) -> list[dict[str, float]]:
    """Return a row for each of the ascending sizes: so many have ended, and what is done beside them."""
    rows: list[dict[str, float]] = []
    with TemporaryDirectory(prefix="treadle-bench-") as name:
        scratch = Path(name)
        with open_databases([kind], postgres_url, scratch) as (databases, _):
            testbed = Testbed(database=kind, databases=databases, scratch=scratch)
            with testbed.home() as home:
                with open_harness(home) as harness:
                    preload(harness, 100)
                    drain(harness, 100, workers_of(harness))
                copy, ended, first = _copier(kind, home, scratch), 0, FIRST
                for size in sizes:
                    began = time.monotonic()
                    if size > ended:
                        copy(first, size - ended)
                        # What is drained meanwhile is numbered behind them.
                        first, ended = first + size - ended + FIRST, size
                    row: dict[str, float] = {"ended": size, "copied in s": time.monotonic() - began}
                    with open_harness(home) as harness:
                        for repeat in range(repeats):
                            preload(harness, count)
                            row[f"tasks/s {repeat + 1}"] = drain(harness, count, workers_of(harness))
                        worker = harness.start_worker()
                        starts = measure_latency(harness, LATENCIES)["start"]
                        worker.stop()
                    rows.append(row | {"start p50 ms": percentile(starts, 0.5), "p99 ms": percentile(starts, 0.99)})
    return rows


def main() -> None:
    """Measure, and print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=[SQLITE, POSTGRESQL], default=SQLITE)
    parser.add_argument("--postgres-url", help="a PostgreSQL server where databases may be made; else one is started")
    parser.add_argument("--ended", type=int, nargs="+", default=[0, 1_000_000, 10_000_000], help="ascending")
    parser.add_argument("--count", type=int, default=30_000, help="tasks of a drain")
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    rows = measure(given.database, given.ended, given.count, given.repeats, given.postgres_url)
    show(f"Beside tasks that have ended, on {given.database}", rows, {"drained": given.count})


if __name__ == "__main__":
    main()

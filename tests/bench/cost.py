"""Measures what a task costs: processor time by process, WAL and rows: `python -m tests.bench.cost --help`.

Rates depend on what else the machine does; processor time depends on it far less. Each round is a bulk submit and a
drain of it by one worker process, on a new database.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import asyncpg
import psutil

from tests.bench.report import show
from treadle_bench.cases.drains import preload
from treadle_bench.databases import open_databases
from treadle_bench.figures import POSTGRESQL, SQLITE
from treadle_bench.harness import Harness, open_harness
from treadle_bench.loads.running import until
from treadle_bench.testbed import Testbed

Sums = dict[str, float]

LOOK = 0.25
"""Seconds between two looks at how far the drain is; each costs the server as much as some 30 tasks."""

_TABLES = """
SELECT sum(n_tup_ins) AS inserted, sum(n_tup_upd) AS updated, sum(n_tup_hot_upd) AS hot, sum(n_tup_del) AS deleted
  FROM pg_stat_user_tables
"""
_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def seconds(process: psutil.Process) -> float:
    """Return the processor time that the process has taken until now."""
    times = process.cpu_times()
    return times.user + times.system


async def database_sums(url: str) -> Sums:
    """Return what PostgreSQL has done until now; `waits` are its backends' waits, mostly for their clients."""
    connection = await asyncpg.connect(url)
    try:
        backends = [psutil.Process(row["pid"]) for row in await connection.fetch(_BACKENDS)]
        rows = dict(await connection.fetchrow(_TABLES))
        wal = await connection.fetchrow("SELECT wal_bytes, wal_records FROM pg_stat_wal")
    finally:
        await connection.close()
    return {
        "backends": sum(seconds(one) for one in backends),
        "waits": float(sum(one.num_ctx_switches().voluntary for one in backends)),
        "WAL bytes": float(wal["wal_bytes"]),
        "WAL records": float(wal["wal_records"]),
        **{name: float(n or 0) for name, n in rows.items()},
    }


def sums(server: psutil.Process, worker: psutil.Process | None, url: str | None) -> Sums:
    """Return everything that was spent until now."""
    found = {"server": seconds(server), "worker": 0.0 if worker is None else seconds(worker)}
    return found | (asyncio.run(database_sums(url)) if url else {})


def spent(before: Sums, after: Sums, count: int) -> Sums:
    """Return what was spent for each of `count` tasks; processor time in microseconds."""
    per = {name: (after[name] - before[name]) / count for name in after}
    times = {name: per.pop(name) * 1e6 for name in ("server", "worker", "backends") if name in per}
    return {**times, "all": sum(times.values()), **per}


def measure(harness: Harness, url: str | None, count: int) -> Iterator[tuple[str, Sums]]:
    """Yield what a bulk submit and a drain of `count` tasks cost."""
    server = psutil.Process(harness.server_pid)
    before = sums(server, None, url)
    preload(harness, count)
    time.sleep(1.2)  # PostgreSQL's backends report their statistics once a second
    yield "submit", spent(before, sums(server, None, url), count)
    worker = harness.start_worker()
    process = psutil.Process(worker.process.pid)
    until(harness.has_started, worker, "no task was started")
    before, began = sums(server, process, url), time.monotonic()
    while harness.counts().get("completed", 0) < count:
        time.sleep(LOOK)
    took = time.monotonic() - began
    at_end = sums(server, process, url)
    time.sleep(1.2)
    later = sums(server, process, url)
    counted = {name: n if name in {"server", "worker", "backends"} else later[name] for name, n in at_end.items()}
    yield "drain", spent(before, counted, count) | {"tasks/s": count / took}
    worker.stop()


def rounds(kind: str, count: int, repeats: int, postgres_url: str | None) -> Iterator[tuple[str, Sums]]:
    """Yield what each round's submit and drain cost."""
    with (
        TemporaryDirectory(prefix="treadle-cost-") as scratch,
        open_databases([kind], postgres_url, Path(scratch)) as (databases, _),
    ):
        testbed = Testbed(database=kind, databases=databases, scratch=Path(scratch))
        for _ in range(repeats):
            with testbed.home() as home, open_harness(home) as harness:
                yield from measure(harness, home.get("TREADLE_DATABASE_URL"), count)


def main() -> None:
    """Read the sizes, measure, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=[SQLITE, POSTGRESQL], default=POSTGRESQL)
    parser.add_argument("--postgres-url", help="a PostgreSQL server where databases may be made; else one is started")
    parser.add_argument("--count", type=int, default=30_000, help="tasks of a round")
    parser.add_argument("--repeats", type=int, default=3, help="rounds, of which medians are printed")
    given = parser.parse_args()
    found: dict[str, list[Sums]] = {}
    for name, cost in rounds(given.database, given.count, given.repeats, given.postgres_url):
        found.setdefault(name, []).append(cost)
        print(name, {key: round(value, 3) for key, value in cost.items()}, flush=True)
    for name, costs in found.items():
        row = {key: median(cost[key] for cost in costs) for key in costs[0]}
        show(
            f"What a task costs on {given.database}: {name}, microseconds and counts a task",
            [row],
            {"tasks": given.count},
        )


if __name__ == "__main__":
    main()

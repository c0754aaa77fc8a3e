"""What the machine itself can do at this hour: a lower bound for submits, to compare other figures with."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from treadle_bench.case import Case
from treadle_bench.children import Children, without_treadle
from treadle_bench.figures import NONE, Figure, Sample, percentile
from treadle_bench.loads.running import finish, ready, start
from treadle_bench.testbed import Testbed

SINGLE, ROWS, BATCH = 3_000, 100_000, 1_000
ECHOES = 2_000

_TABLE = """
CREATE TABLE tasks (seq INTEGER PRIMARY KEY, id TEXT, job INTEGER, lane INTEGER, status TEXT, priority INTEGER,
                    due_at INTEGER, created_at INTEGER, payload TEXT, submitter TEXT, attempts INTEGER, lease INTEGER);
CREATE UNIQUE INDEX tasks_id ON tasks (id);
CREATE INDEX tasks_pending ON tasks (lane, priority, due_at) WHERE status = 'pending';
CREATE INDEX tasks_lease ON tasks (lease) WHERE lease IS NOT NULL;
"""
"""Twelve columns and three indexes, the least that a queue's table can have."""

_INSERT = "INSERT INTO tasks VALUES (?, ?, 1, 1, 'pending', 0, 0, 0, '{}', 'admin', 0, NULL)"


def _inserts(scratch: Path, count: int, at_once: int) -> float:
    """Return rows per second into a new file, with `at_once` rows in each durable transaction."""
    with (
        TemporaryDirectory(prefix="treadle-bench-", dir=scratch) as directory,
        closing(sqlite3.connect(Path(directory, "limits.db"), isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(_TABLE)
        began = time.perf_counter()
        for first in range(0, count, at_once):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT, ((n, f"{n:032x}") for n in range(first, first + at_once)))
            connection.execute("COMMIT")
        return count / (time.perf_counter() - began)


def _limits(testbed: Testbed) -> Iterator[Sample]:
    single, rows = testbed.count(SINGLE), testbed.count(ROWS, least=BATCH) // BATCH * BATCH
    yield Sample("single INSERT", _inserts(testbed.scratch, single, 1))
    yield Sample("1,000 rows in a transaction", _inserts(testbed.scratch, rows, BATCH))
    with TemporaryDirectory(prefix="treadle-bench-", dir=testbed.scratch) as directory:
        environment = without_treadle() | {"PYTHONUNBUFFERED": "1"}
        with Children(Path(directory), environment) as children:
            port = ready(start(children, "echo-server", {}), "port", "the echo is not ready")
            times = finish(start(children, "echo", {"port": port, "count": testbed.count(ECHOES)}), "echo")
    yield Sample("echo", percentile(times, 0.5))


LIMITS = Case(
    name="limits",
    summary="the machine: sqlite3's durable INSERTs, one and 1,000 in a transaction, and a socket's echo",
    figures=(
        Figure(name="single INSERT", unit="rows/s"),
        Figure(name="1,000 rows in a transaction", unit="rows/s"),
        Figure(name="echo", unit="ms", is_rate=False),
    ),
    measure=_limits,
    databases=(NONE,),
)

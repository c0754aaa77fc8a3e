"""What the machine itself can do at this hour: the floor under a submit, beside which its figures are read."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from treadle.bench.figures import NONE, Case, Figure, Sample, percentile
from treadle.bench.role import MODULE, say, stopped
from treadle.bench.stage import Run, played, until, without_treadle
from treadle.demo.children import Children

SINGLE, ROWS, BATCH = 3_000, 100_000, 1_000
ECHOES = 2_000

_TABLE = """
CREATE TABLE tasks (seq INTEGER PRIMARY KEY, id TEXT, job INTEGER, lane INTEGER, status TEXT, priority INTEGER,
                    due_at INTEGER, created_at INTEGER, payload TEXT, submitter TEXT, attempts INTEGER, lease INTEGER);
CREATE UNIQUE INDEX tasks_id ON tasks (id);
CREATE INDEX tasks_pending ON tasks (lane, priority, due_at) WHERE status = 'pending';
CREATE INDEX tasks_lease ON tasks (lease) WHERE lease IS NOT NULL;
"""
"""Twelve columns and three indexes, as little as a queue's table can have."""

_INSERT = "INSERT INTO tasks VALUES (?, ?, 1, 1, 'pending', 0, 0, 0, '{}', 'admin', 0, NULL)"


def _inserts(scratch: Path, count: int, at_once: int) -> float:
    """Return rows a second into a fresh file, so many in a transaction, each transaction durable."""
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


def _limits(run: Run) -> Iterator[Sample]:
    single, rows = run.count(SINGLE), run.count(ROWS, least=BATCH) // BATCH * BATCH
    yield Sample("single INSERT", _inserts(run.scratch, single, 1))
    yield Sample("1,000 rows in a transaction", _inserts(run.scratch, rows, BATCH))
    with TemporaryDirectory(prefix="treadle-bench-", dir=run.scratch) as directory:
        environment = without_treadle() | {"PYTHONUNBUFFERED": "1"}
        with Children(Path(directory), environment) as children:
            server = children.start("echo-server", "echo-server", "{}", module=MODULE)
            until(lambda: '{"port": ' in server.output(), server, "the echo is not ready")
            port = int(server.output().partition('{"port": ')[2].partition("}")[0])
            times = played(children, "echo", {"port": port, "count": run.count(ECHOES)})
    yield Sample("echo", percentile(times, 0.5))


async def serve() -> dict[str, bool]:
    """Play a server that sends back what it gets, until it is stopped."""
    from websockets.asyncio.server import ServerConnection
    from websockets.asyncio.server import serve as serve_sockets

    async def echo(socket: ServerConnection) -> None:
        async for message in socket:
            await socket.send(message)

    async with serve_sockets(echo, "127.0.0.1", 0, compression=None) as server:
        say({"port": server.sockets[0].getsockname()[1]})
        await stopped()
    return {"stopped": True}


async def echo(port: int, count: int) -> list[float]:
    """Send so many small messages, each after the last one's echo; return the ms that each took."""
    from websockets.asyncio.client import connect

    message, times = os.urandom(64).hex(), []
    async with connect(f"ws://127.0.0.1:{port}", compression=None) as socket:
        for _ in range(count):
            began = time.perf_counter()
            await socket.send(message)
            await socket.recv()
            times.append((time.perf_counter() - began) * 1000)
    return times


LIMITS = (
    Case(
        name="limits",
        summary="the machine: sqlite3's durable INSERTs, one and 1,000 in a transaction, and a socket's echo",
        figures=(
            Figure(name="single INSERT", unit="rows/s"),
            Figure(name="1,000 rows in a transaction", unit="rows/s"),
            Figure(name="echo", unit="ms", is_rate=False),
        ),
        measure=_limits,
        databases=(NONE,),
    ),
)

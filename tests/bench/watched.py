"""Measures what dashboards cost a drain, and how old what they show is: `python -m tests.bench.watched --help`.

Each round is a drain by one worker process on a new database, alone and then beside dashboards that look at the same,
and at different parts of the list. Cost is told as the server's processor time, which depends less than rates on what
else the machine does.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from pydantic_core import from_json, to_json
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from tests.bench.cost import LOOK, seconds
from tests.bench.report import show
from treadle.transport.bearer import Way
from treadle.transport.dialing import dial
from treadle_bench.cases.drains import preload
from treadle_bench.databases import open_databases
from treadle_bench.figures import POSTGRESQL, SQLITE, percentile
from treadle_bench.harness import Harness, open_harness
from treadle_bench.loads.observers import ages_of
from treadle_bench.loads.running import until
from treadle_bench.testbed import Testbed

NEAR = 0.01
"""Seconds between the last looks."""

ROWS = 50
"""Rows of tasks that a dashboard of a usual size shows."""

JOB = "@global:tasks:noop-0"

FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"job": JOB},
    {"status": ["pending"]},
    {"status": ["claimed", "running"]},
    {"status": ["completed"]},
)
ORDERS = ("updated", "position", "newest", "oldest")

DIFFERENT = [{"order": order, "limit": ROWS, "filter": meant} for order, meant in product(ORDERS, FILTERS)]
SAME = {"order": "position", "limit": ROWS}
NEWEST = {"order": "updated", "limit": 1}

KINDS = ("alone", "same", "different")


async def observe(url: str, token: str, windows: list[dict[str, Any]]) -> dict[str, Any]:
    """Play a dashboard for each window until the input ends; return the bytes, and ages in ms by window."""
    shown: list[list[tuple[float, float]]] = []
    size = 0

    async def read(socket: ClientConnection, seen: list[tuple[float, float]]) -> None:
        nonlocal size
        try:
            while True:
                frame = await socket.recv(decode=False)
                size += len(frame)
                now = time.time()
                seen += [(now, max(map(_changed_at, rows))) for rows in _rows(frame)]
        except ConnectionClosed as closed:
            raise ConnectionError(f"the server dropped an observer: {closed}") from closed

    async with asyncio.TaskGroup() as group:
        readers = []
        for window in windows:
            socket, _ = await dial(Way(url, token), "treadle bench")
            topics: list[dict[str, Any]] = [{"topic": "tasks", "window": window}]
            if window is not windows[-1]:
                topics += [{"topic": topic} for topic in ("counts", "jobs", "workers")]
            watches = [{"op": "watch", "n": n, "sub": f"s{n}", **topic} for n, topic in enumerate(topics, start=1)]
            await socket.send(to_json({"items": watches}), text=True)
            shown.append([])
            readers.append(group.create_task(read(socket, shown[-1])))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for reader in readers:
            reader.cancel()
    return {"bytes": size, "ages": [ages_of(one) for one in shown], "frames": sum(map(len, shown))}


def _changed_at(row: dict[str, Any]) -> float:
    """Return when a task moved on, in seconds since 1970."""
    at = row["completed_at"] or row["started_at"] or row["claimed_at"] or row["created_at"]
    return datetime.fromisoformat(at).timestamp()


def _rows(frame: bytes | str) -> Iterator[list[dict[str, Any]]]:
    return (item["rows"] for item in from_json(frame)["items"] if item.get("topic") == "tasks" and item["rows"])


@contextmanager
def observers(harness: Harness, windows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Play dashboards during the block; what they have seen is known after it."""
    asked = json.dumps([harness.url, harness.token, windows])
    command = [sys.executable, "-m", "tests.bench.watched", "--observe", asked]
    found: dict[str, Any] = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield found
        found |= json.loads(process.communicate()[0])


def measure(harness: Harness, kind: str, count: int) -> dict[str, float]:
    """Return what a drain of `count` tasks costs the server beside these dashboards."""
    preload(harness, count)
    windows = {"alone": [], "same": [SAME] * 20 + [NEWEST], "different": [*DIFFERENT, NEWEST]}[kind]
    with observers(harness, windows) as seen:
        server = psutil.Process(harness.server_pid)
        worker = harness.start_worker()
        until(harness.has_started, worker, "no task was started")
        before, began = seconds(server), time.monotonic()
        while (done := harness.counts().get("completed", 0)) < count:
            # At the half of what seems left: looks that lie apart tell a short drain's rate by steps of a fifth.
            left = (time.monotonic() - began) * (count / max(done, 1) - 1)
            time.sleep(min(LOOK, max(NEAR, left / 2)))
        spent, took = seconds(server) - before, time.monotonic() - began
        worker.stop()
    row = {"server, us a task": spent / count * 1e6, "tasks/s": count / took}
    if windows:
        told = zip(windows, seen["ages"], strict=True)
        ages = [age for window, several in told if _moves(window) for age in several]
        row |= {"lag p50": percentile(ages, 0.5), "lag p95": percentile(ages, 0.95)}
        row |= {"newest p95": percentile(seen["ages"][-1] or [0.0], 0.95)}
        row |= {"MB/s": seen["bytes"] / took / 1e6}
    return row


def _moves(window: dict[str, Any]) -> bool:
    """Return whether every commit of a drain changes the window; others stand still for long, rightly."""
    return window["order"] == "updated" and window.get("filter", {}).get("status") != ["pending"]


def main() -> None:
    """Read the sizes, measure, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=[SQLITE, POSTGRESQL], default=SQLITE)
    parser.add_argument("--postgres-url", help="a PostgreSQL server where databases may be made; else one is started")
    parser.add_argument("--count", type=int, default=15_000, help="tasks of a drain")
    parser.add_argument("--repeats", type=int, default=3, help="rounds, of which medians are printed")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--observe", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.observe:
        print(json.dumps(asyncio.run(observe(*json.loads(given.observe)))))
        return
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in given.kinds}
    with (
        TemporaryDirectory(prefix="treadle-watched-") as scratch,
        open_databases([given.database], given.postgres_url, Path(scratch)) as (databases, _),
    ):
        testbed = Testbed(database=given.database, databases=databases, scratch=Path(scratch))
        for _ in range(given.repeats):
            for kind in given.kinds:
                with testbed.home() as home, open_harness(home) as harness:
                    found[kind].append(measure(harness, kind, given.count))
                print(kind, {name: round(value, 1) for name, value in found[kind][-1].items()}, flush=True)
    for kind, rows in found.items():
        row = {name: median(one[name] for one in rows) for name in rows[0]}
        show(f"A drain on {given.database} beside dashboards: {kind}", [row], {"tasks": given.count})


if __name__ == "__main__":
    main()

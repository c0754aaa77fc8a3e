"""Measures what dashboards cost a drain, and how old what they show is: `python -m tests.bench.watched --help`.

Each round is a drain by one worker process on a new database, alone and then beside dashboards that look at the same,
and at different parts of the list. Cost is told as processor time, which depends less than rates on what else the
machine does: the server's, that of PostgreSQL's backends, and that of the process which plays the dashboards.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from pydantic_core import from_json, to_json
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from tests.bench.cost import seconds
from tests.bench.report import show
from treadle.transport.bearer import Way
from treadle.transport.dialing import dial
from treadle_bench.cases.drains import Meter, drain, preload, workers_of
from treadle_bench.children import Child
from treadle_bench.databases import Databases, open_databases
from treadle_bench.figures import POSTGRESQL, SQLITE, percentile
from treadle_bench.harness import Harness, open_harness
from treadle_bench.loads.observers import ages_of
from treadle_bench.testbed import Testbed

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
        found["process"] = psutil.Process(process.pid)
        yield found
        found |= json.loads(process.communicate()[0])


class Spent(Meter):
    """Processor seconds of a drain, by who spent them."""

    def __init__(self, server: psutil.Process, dashboards: psutil.Process, backends: Callable[[], float]) -> None:
        self._who: dict[str, Callable[[], float]] = {
            "server, us a task": partial(seconds, server),
            "backends": backends,
            "dashboards": partial(seconds, dashboards),
        }
        self._begun: dict[str, float] = {}
        self.taken: dict[str, float] = {}

    def begin(self, workers: list[Child]) -> None:
        """Count from here."""
        self._begun = {name: now() for name, now in self._who.items()}

    def end(self, workers: list[Child]) -> None:
        """Count until here."""
        self.taken = {name: now() - self._begun[name] for name, now in self._who.items()}


def measure(harness: Harness, kind: str, count: int, backends: Callable[[], float]) -> dict[str, float]:
    """Return what a drain of `count` tasks costs beside these dashboards; `backends` tells the database's seconds."""
    preload(harness, count)
    windows = {"alone": [], "same": [SAME] * 20 + [NEWEST], "different": [*DIFFERENT, NEWEST]}[kind]
    with observers(harness, windows) as seen:
        spent = Spent(psutil.Process(harness.server_pid), seen["process"], backends)
        rate = drain(harness, count, workers_of(harness), meter=spent)
    row = {name: taken / count * 1e6 for name, taken in spent.taken.items()} | {"tasks/s": rate}
    if windows:
        told = zip(windows, seen["ages"], strict=True)
        ages = [age for window, several in told if _moves(window) for age in several]
        row |= {"lag p50": percentile(ages, 0.5), "lag p95": percentile(ages, 0.95)}
        row |= {"newest p95": percentile(seen["ages"][-1] or [0.0], 0.95)}
        row |= {"MB/s": seen["bytes"] * rate / count / 1e6}
    return row


def spent_by_backends(databases: Databases, url: str | None) -> float:
    """Return PostgreSQL's processor seconds until now; 0 where there is none."""
    return (url and databases.backends_cpu(url)) or 0.0


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
                    url = home.get("TREADLE_DATABASE_URL")
                    found[kind].append(measure(harness, kind, given.count, partial(spent_by_backends, databases, url)))
                print(kind, {name: round(value, 1) for name, value in found[kind][-1].items()}, flush=True)
    for kind, rows in found.items():
        row = {name: median(one[name] for one in rows) for name in rows[0]}
        show(f"A drain on {given.database} beside dashboards: {kind}", [row], {"tasks": given.count})


if __name__ == "__main__":
    main()

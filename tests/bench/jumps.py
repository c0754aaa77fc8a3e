"""Measures how long a dashboard waits when it jumps into a long list by offset: `python -m tests.bench.jumps --help`.

Each row is an order and a filter, looked at three times into it: the first time that anybody reads there since the
tasks were put in, and later. On PostgreSQL whoever reads a row first after a burst notes in it that it is committed,
unless a vacuum was there before.
"""

import argparse
import asyncio
import time
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from pydantic_core import from_json, to_json
from websockets.asyncio.client import ClientConnection

from tests.bench.report import show
from treadle.transport.bearer import Way
from treadle.transport.dialing import dial
from treadle_bench.cases.drains import preload
from treadle_bench.databases import open_databases
from treadle_bench.figures import POSTGRESQL, SQLITE
from treadle_bench.harness import Harness, open_harness
from treadle_bench.testbed import Testbed

ROWS = 100
"""Rows of a window."""

FILTERS: dict[str, dict[str, Any]] = {
    "-": {},
    "job": {"job": "@global:tasks:noop-0"},
    "status": {"status": ["pending"]},
}

LAST_CHANGED = 100_000
"""How long the list of what changed last is at most."""


async def jump(socket: ClientConnection, n: int, window: dict[str, Any]) -> tuple[float, int]:
    """Return the milliseconds until a window is there, and how many rows it has. Raises `ValueError` when refused."""
    begun = time.perf_counter()
    watch = {"op": "watch", "n": n, "sub": f"s{n}", "topic": "tasks", "window": window}
    await socket.send(to_json({"items": [watch]}), text=True)
    while True:
        for item in from_json(await socket.recv(decode=False))["items"]:
            if "problem" in item:
                raise ValueError(item["problem"])
            if item.get("sub") == f"s{n}" and item.get("push") == "snapshot":
                took = (time.perf_counter() - begun) * 1000
                await socket.send(to_json({"items": [{"op": "unwatch", "n": n + 1, "sub": f"s{n}"}]}), text=True)
                return took, len(item["rows"])


async def measure(harness: Harness, count: int, repeats: int) -> list[dict[str, Any]]:
    """Return a row for each order and filter: milliseconds of the first jumps, and of the later ones."""
    socket, _ = await dial(Way(harness.url, harness.token), "treadle bench")
    found: list[dict[str, Any]] = []
    n = 1
    for order, (name, meant) in product(("position", "newest", "oldest", "updated"), FILTERS.items()):
        length = min(count, LAST_CHANGED) if order == "updated" else count
        taken: list[list[float]] = []
        rows = 0
        for _ in range(repeats):
            taken.append([])
            for offset in (length // 2, length // 2 + 1_234, length // 3):
                window = {"order": order, "limit": ROWS, "offset": offset, "filter": meant}
                took, rows = await jump(socket, n, window)
                taken[-1].append(took)
                n += 2
        later = [took for several in taken[1:] for took in several]
        found.append(
            {"order": order, "filter": name, "rows": rows}
            | {f"first {i}": took for i, took in enumerate(taken[0], start=1)}
            | {"later": median(later), "at most": max(later)}
        )
    await socket.close()
    return found


def main() -> None:
    """Read the sizes, measure, and print the milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=[SQLITE, POSTGRESQL], default=SQLITE)
    parser.add_argument("--postgres-url", help="a PostgreSQL server where databases may be made; else one is started")
    parser.add_argument("--count", type=int, default=1_000_000, help="tasks that are pending")
    parser.add_argument("--repeats", type=int, default=4, help="rounds, of which the first is told by itself")
    given = parser.parse_args()
    with (
        TemporaryDirectory(prefix="treadle-jumps-") as scratch,
        open_databases([given.database], given.postgres_url, Path(scratch)) as (databases, _),
    ):
        testbed = Testbed(database=given.database, databases=databases, scratch=Path(scratch))
        with testbed.home() as home, open_harness(home) as harness:
            preload(harness, given.count)
            rows = asyncio.run(measure(harness, given.count, given.repeats))
    show(f"Jumps by offset on {given.database}, ms", rows, {"tasks": given.count})


if __name__ == "__main__":
    main()

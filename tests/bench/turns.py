"""Shows what stands still while PostgreSQL's writer works: `python -m tests.bench.turns --help`.

For drains by one and by two workers, and for a hundred coroutines that submit: how long nothing, a statement or a
commit was under way at the database, and for how much of each the server computed. Beside it the processor time.
"""

import argparse
import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from tests.bench.cost import database_sums, seconds
from tests.bench.traced import TRACE
from treadle_bench.cases.drains import preload
from treadle_bench.children import Children, without_treadle
from treadle_bench.databases import open_databases
from treadle_bench.figures import POSTGRESQL
from treadle_bench.harness import Harness
from treadle_bench.loads.running import until
from treadle_bench.testbed import Testbed

LOOK = 0.1
"""Seconds between two looks at how far a drain is."""


@contextmanager
def traced_harness(home: dict[str, str]) -> Iterator[tuple[Harness, Path]]:
    """Run a server with marks, and give the file to which it tells them."""
    directory = Path(home["TREADLE_DATA_DIR"])
    trace = directory / "trace.json"
    path = {"PYTHONPATH": str(Path(__file__).parents[2]), TRACE: str(trace), "PYTHONUNBUFFERED": "1"}
    with Children(directory, without_treadle() | home | path) as children:
        server = children.start("server-1", "server", "--port", "0", module="tests.bench.traced")
        with closing(Harness(children, directory, server, time.monotonic())) as harness:
            yield harness, trace


def look(harness: Harness, trace: Path) -> dict[str, Any]:
    """Return what the server has noted since the last look."""
    trace.unlink(missing_ok=True)
    os.kill(harness.server_pid, signal.SIGUSR1)
    limit = time.monotonic() + 10
    while not trace.exists():
        if time.monotonic() > limit:
            raise TimeoutError("the server does not tell its marks")
        time.sleep(0.005)
    found: dict[str, Any] = json.loads(trace.read_text())
    return found


def submit(harness: Harness, trace: Path, url: str, count: int) -> dict[str, Any]:
    """Have a hundred coroutines submit."""
    harness.run("submit", count=100, how="many")
    before = backends_of(url)
    look(harness, trace)
    harness.run("submit", count=count, how="many")
    return look(harness, trace) | {"workers": 0.0, "backends": backends_of(url) - before, "done": count}


def drain(harness: Harness, trace: Path, url: str, count: int, workers: int) -> dict[str, Any]:
    """Have workers drain nine tenths of what is submitted before."""
    preload(harness, count)
    running = [harness.start_worker() for _ in range(workers)]
    until(harness.has_started, running[0], "no task was started")
    processes = [psutil.Process(child.process.pid) for child in running]
    before, ours = backends_of(url), sum(map(seconds, processes))
    first = harness.counts().get("completed", 0)
    look(harness, trace)
    while (done := harness.counts().get("completed", 0)) < 0.9 * count:
        time.sleep(LOOK)
    found = look(harness, trace)
    found |= {"workers": sum(map(seconds, processes)) - ours, "backends": backends_of(url) - before}
    for child in running:
        child.stop()
    return found | {"done": done - first}


def backends_of(url: str) -> float:
    """Return the processor time that the backends have taken until now."""
    return asyncio.run(database_sums(url))["backends"]


def show(name: str, found: dict[str, Any]) -> None:
    """Print one measurement."""
    wall, states, done = found["wall"], found["states"], found["done"]
    batches = [rows for rows in found["batches"] if rows]
    print(f"\n{name}: {done / wall * 1e3:,.0f} tasks/s, {len(batches)} batches of {mean(batches or [0]):.0f} tasks")
    cpu = {who: found[who] / done * 1e6 for who in ("workers", "backends")}
    cpu = {"server": sum(busy for _, busy in states.values()) / done * 1e3} | cpu
    told = ", ".join(f"{who} {us:.1f}" for who, us in cpu.items())
    print(f"  microseconds of processor time a task: {told}; of the server's while this is under way:")
    for state, (took, busy) in sorted(states.items(), key=lambda one: -one[1][0]):
        if took > wall / 200:
            print(f"  {busy / done * 1e3:6.1f}  {state} ({took / wall:.1%} of the time)")
    for kind, (count, took) in sorted(found["spans"].items(), key=lambda one: -one[1][1]):
        print(f"  {kind}: {count}, {took / count:.2f} ms each, {took / done * 1e3:.1f} microseconds a task", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres-url", help="a PostgreSQL server where databases may be made; else one is started")
    parser.add_argument("--count", type=int, default=20_000, help="tasks of a drain")
    parser.add_argument("--cases", nargs="+", default=["submit", "1", "2"], help="submit, or numbers of workers")
    given = parser.parse_args()
    with (
        TemporaryDirectory(prefix="treadle-turns-") as scratch,
        open_databases([POSTGRESQL], given.postgres_url, Path(scratch)) as (databases, _),
    ):
        testbed = Testbed(database=POSTGRESQL, databases=databases, scratch=Path(scratch))
        for case in given.cases:
            with testbed.home() as home, traced_harness(home) as (harness, trace):
                url = home["TREADLE_DATABASE_URL"]
                if case == "submit":
                    found = submit(harness, trace, url, given.count // 2)
                else:
                    found = drain(harness, trace, url, given.count, int(case))
            show(case, found)


if __name__ == "__main__":
    main()

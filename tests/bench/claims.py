"""What limits cost who claims: `python -m tests.bench.claims [--database sqlite|postgres]` holds it to 1.5 times.

Claims of fifty over HTTP, there and back, of two servers in turn: on one each task has a key of its own, on the other
none has a limit. What the engine alone takes is `tests.bench.limits keys`; here the processes of PostgreSQL count too.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from statistics import fmean, median
from time import perf_counter
from typing import Any

import httpx

from tests.bench.report import show
from tests.bench.site import databases, open_site
from tests.promises.problems import told

MOST = 50
BULK = 500
BOUND = 1.5
FIRST = 4
"""Claims that are not counted: of the first one the size of a task is not known yet, and it gets fewer."""

Turn = Callable[[], Awaitable[float]]


async def claims(stack: AsyncExitStack, database: str, count: int, *, limited: bool) -> Turn:
    """Return a claim of fifty out of so many tasks, in milliseconds; what it got is reported as completed behind it."""
    site = await stack.enter_async_context(open_site(database))
    headers = {"Authorization": f"Bearer {site.server.token}"}
    http = await stack.enter_async_context(httpx.AsyncClient(base_url=site.server.url, headers=headers, timeout=60))
    worker: str = told(await http.post("/v1/workers", json={"concurrency": MOST}))["id"]
    told(await http.put("/v1/rooms/lab/limits/api", json={"concurrency": 1}))
    told(await http.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "plain", "worker_id": worker}))
    for start in range(0, count, BULK):
        tasks = [_task(f"k{n}" if limited else None) for n in range(start, start + BULK)]
        told(await http.post("/v1/rooms/lab/tasks", json={"tasks": tasks}))

    async def turn() -> float:
        began = perf_counter()
        answer = await http.post("/v1/tasks/claim", json={"worker_id": worker, "tasks": MOST})
        took = perf_counter() - began
        runs = [{"task_id": one["id"], "run_id": one["run_id"]} for one in told(answer)["tasks"]]
        reports = [{**run, "kind": "completed", "starts": True} for run in runs]
        told(await http.post(f"/v1/workers/{worker}/reports", json={"reports": reports}))
        return took * 1000

    return turn


def _task(key: str | None) -> dict[str, Any]:
    limits = {} if key is None else {"limits": [{"name": "api", "key": key}]}
    return {"job": "lab:tasks:plain", "payload": {}, **limits}


async def measure(kind: str, count: int, rounds: int) -> bool:
    """Take both in turn, print what they took, and return whether that is within the bound."""
    with databases(kind) as database:
        async with AsyncExitStack() as stack:
            turns = {limited: await claims(stack, database, count, limited=limited) for limited in (False, True)}
            took: dict[bool, list[float]] = {False: [], True: []}
            for n in range(FIRST + rounds):
                for limited in (False, True) if n % 2 else (True, False):
                    took[limited].append(await turns[limited]())
    counted = {limited: times[FIRST:] for limited, times in took.items()}
    rows: list[dict[str, Any]] = [
        {"limited": limited, "waiting": count, "ms": fmean(times), "median ms": median(times)}
        for limited, times in counted.items()
    ]
    ratio = sum(counted[True]) / sum(counted[False])
    show(f"Claims of {MOST} over HTTP on {kind}", rows, {"times slower": ratio, "bound": BOUND})
    return ratio <= BOUND


def main() -> None:
    """Read the sizes and measure; the exit code is 1 when the bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--waiting", type=int, default=10_000, help="tasks of each server")
    parser.add_argument("--rounds", type=int, default=150)
    given = parser.parse_args()
    sys.exit(not asyncio.run(measure(given.database, given.waiting, given.rounds)))


if __name__ == "__main__":
    main()

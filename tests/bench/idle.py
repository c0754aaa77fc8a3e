"""What idle workers cost: a server with 1,000 of them, its share of a core, its memory, and how soon a task starts.

    python -m tests.bench.idle [--workers 1000] [--seconds 60] [--database-url …]

The workers are sessions of this process that speak the protocol as the SDK does: they beat every 15 seconds, answer
pings, and start what they are given. Bars (T10): under 5 % of a core, under 300 MB, starts within 20 ms (median).
"""

import argparse
import asyncio
import itertools
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from websockets.asyncio.client import ClientConnection, connect

from tests.chaos.processes import ServerProcess, running_server

BEAT = 15.0
"""Seconds between the heartbeats of an idle worker."""

STARTS = 300
CORE, MEMORY, START = 0.05, 300e6, 0.020
JOB = {"room": "@global", "category": "tasks", "name": "idle", "schema": {}, "retain": True}


class Starts:
    """When each task came to its worker."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.arrived = asyncio.Event()

    def note(self, name: str) -> None:
        """Note that a task is there."""
        self.at[name] = time.perf_counter()
        self.arrived.set()


class IdleWorker:
    """A session that is open as a worker."""

    def __init__(self, socket: ClientConnection, starts: Starts, is_open: asyncio.Event) -> None:
        self._socket = socket
        self._starts = starts
        self._numbers = itertools.count(2)
        self.is_open = is_open

    async def send(self, op: str, **fields: Any) -> None:
        """Send a request."""
        await self._socket.send(json.dumps({"items": [{"op": op, "n": next(self._numbers), **fields}]}))

    async def live(self, name: str) -> None:
        """Open itself, and do what a worker does."""
        hello = {"op": "hello", "n": 0, "protocol": 1}
        opened = {"op": "open", "n": 1, "worker": {"name": name, "concurrency": 1}, "jobs": [JOB], "prefetch": 0}
        await self._socket.send(json.dumps({"items": [hello, opened]}))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat())
            async for frame in self._socket:
                for item in json.loads(frame)["items"]:
                    assert "problem" not in item, item
                    if item.get("re") == 1:
                        self.is_open.set()
                    if item.get("push") == "claim":
                        await self._work(item["tasks"])

    async def _beat(self) -> None:
        await self.is_open.wait()
        await asyncio.sleep(random.uniform(0, BEAT))
        while True:
            await self.send("beat", tasks=[])
            await asyncio.sleep(BEAT)

    async def _work(self, claims: list[dict[str, Any]]) -> None:
        reports = []
        for claim in claims:
            self._starts.note(claim["id"])
            report = {"task_id": claim["id"], "run_id": claim["run_id"], "kind": "completed", "starts": True}
            reports.append(report)
        await self.send("reports", reports=reports, brief=True)


@asynccontextmanager
async def idle_workers(server: ServerProcess, count: int, starts: Starts) -> AsyncIterator[None]:
    """Have so many workers open during the block."""
    async with asyncio.TaskGroup() as group:

        async def live(name: str, is_open: asyncio.Event) -> None:
            async with connect(server.socket_url, additional_headers=server.headers, compression=None) as socket:
                await IdleWorker(socket, starts, is_open).live(name)

        living = []
        for number in range(count):
            # One after another: what is measured is not how they come.
            is_open = asyncio.Event()
            living.append(group.create_task(live(f"idle-{number}", is_open)))
            await asyncio.wait_for(is_open.wait(), 30)
        yield
        for one in living:
            one.cancel()


async def time_starts(server: ServerProcess, starts: Starts) -> list[float]:
    """Submit tasks one after another, and return after how many seconds each was with its worker."""
    took = []
    async with connect(server.socket_url, additional_headers=server.headers, compression=None) as socket:
        await socket.send(json.dumps({"items": [{"op": "hello", "n": 0, "protocol": 1}]}))
        await socket.recv()
        for n in range(1, STARTS + 1):
            name = f"00000000-0000-7000-8000-{n:012d}"
            task = {"job": "@global:tasks:idle", "payload": {"n": n}, "id": name}
            began = time.perf_counter()
            await socket.send(json.dumps({"items": [{"op": "submit", "n": n, "room": "@global", "tasks": [task]}]}))
            async with asyncio.timeout(30):
                await socket.recv()
                await starts.arrived.wait()
            starts.arrived.clear()
            took.append(starts.at[name] - began)
            await asyncio.sleep(0.02)
    return took


async def measure(server: ServerProcess, workers: int, seconds: float) -> dict[str, float]:
    """Return what so many idle workers cost the server, and how soon tasks start among them."""
    assert server._process is not None
    process = psutil.Process(server._process.pid)
    starts = Starts()
    async with idle_workers(server, workers, starts):
        await asyncio.sleep(BEAT)
        before, began = process.cpu_times(), time.perf_counter()
        await asyncio.sleep(seconds)
        after, passed = process.cpu_times(), time.perf_counter() - began
        spent = after.user + after.system - before.user - before.system
        took = await time_starts(server, starts)
        return {
            "workers": workers,
            "core": spent / passed,
            "bytes": process.memory_info().rss,
            "start_p50": statistics.median(took),
            "start_p99": sorted(took)[int(len(took) * 0.99)],
        }


def main() -> None:
    """Measure, print, and exit 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--database-url")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        url = given.database_url or f"sqlite:///{name}/treadle.db"
        with running_server(Path(name), url) as server:
            found = asyncio.run(measure(server, given.workers, given.seconds))
    print(
        f"{found['workers']} idle workers: {found['core']:.1%} of a core, {found['bytes'] / 1e6:.0f} MB; a task starts"
        f" after {found['start_p50'] * 1e3:.1f} ms (median), {found['start_p99'] * 1e3:.1f} ms (p99)"
    )
    sys.exit(not (found["core"] < CORE and found["bytes"] < MEMORY and found["start_p50"] < START))


if __name__ == "__main__":
    main()

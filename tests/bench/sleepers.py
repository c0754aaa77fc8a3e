"""Ten thousand tasks that sleep: what they cost while they do, and how late they wake.

`python -m tests.bench.sleepers [--tasks 10000] [--over SECONDS] [--database URL]` prints it; nothing holds it to a
number. All wake at the same moment, or `--over` so many seconds one after the other.
"""

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path

from treadle import Client, Context, Worker, task
from treadle_bench.machine import memory_of
from treadle_server.testing import serve

LENGTH = 20.0
"""Seconds from the first submit until all are to wake."""


@task
async def sleeper(ctx: Context, at: float) -> float:
    """Sleep until an instant, and return how late it was."""
    await ctx.sleep(max(0.0, at - time.time()))
    return time.time() - at


async def main(tasks: int, url: str, over: float) -> None:
    """Submit them, wait until all sleep, and see them wake."""
    async with serve(url) as server, Client(server.url, server.token) as client:
        worker = Worker([sleeper], url=server.url, token=server.token, concurrency=200)
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run_async())
            await worker.ready.wait()
            before = memory_of(os.getpid()).own
            at = time.time() + LENGTH
            moments = [at + over * n / tasks for n in range(tasks)]
            handles = await client.submit_many([sleeper.bind(at=moment) for moment in moments], wait=True)
            asleep_at = await _all_asleep(client, tasks)
            grown = memory_of(os.getpid()).own - before
            used = time.process_time()
            await asyncio.sleep(max(0.0, min(3.0, at - time.time() - 1.0)))
            idle = time.process_time() - used
            late = sorted([await handle.result() for handle in handles])
            worker.stop()
    print(f"{tasks} tasks asleep {asleep_at - (at - LENGTH):.1f} s after the first submit")
    print(f"{before:.0f} MB before them, {grown:.0f} MB more while they slept: the server, its worker and the client")
    print(f"while they slept the process used {idle:.2f} s of processor time in 3 s")
    places = {"p50": tasks // 2, "p99": tasks * 99 // 100, "worst": tasks - 1}
    print("woken late:", ", ".join(f"{name} {late[place]:.2f} s" for name, place in places.items()))


async def _all_asleep(client: Client, tasks: int) -> float:
    while (await client.stats()).counts.get("scheduled", 0) < tasks:  # noqa: ASYNC110 - it is asked as anybody would
        await asyncio.sleep(0.1)
    return time.time()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--database", help="a URL; a file of its own unless given")
    parser.add_argument("--over", type=float, default=0.0, help="seconds from the first that wakes to the last")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(given.tasks, given.database or f"sqlite:///{Path(directory) / 'bench.db'}", given.over))

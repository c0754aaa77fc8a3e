"""Tasks under limits that say from inside when they begin and end, and in which process."""

import asyncio
import os
import time

from tests.lines import append
from treadle import Limit, Worker, task

PLACES, RATE, BURST = 40, 4, 80
CONCURRENCY = 5
LEASE = 20.0
"""Seconds: more than any reconnection takes, so that no live worker's code outlasts its place."""

_LASTING = {"max_requeues": 100, "max_retries": 0, "lease_seconds": LEASE}


def say(what: str, key: str) -> None:
    """Append a line: what happened under which key, in which process, on the clock that all of the machine share."""
    line = f"{what} {os.getpid()} {key} {time.monotonic():.6f}"
    append(os.environ["TREADLE_TEST_MARKS"], line)


@task(limits=[Limit("each", key="/key", concurrency=1), Limit("all", concurrency=PLACES)], **_LASTING)
async def inside(n: int, key: str, seconds: float) -> int:
    """Be one at a time under its key, and one of so many in all."""
    say("begin", key)
    await asyncio.sleep(seconds)
    say("end", key)
    return n


@task(limits=[Limit("pace", rate=(RATE, 1), burst=BURST)], **_LASTING)
async def paced(n: int) -> int:
    """Begin no faster than the rate."""
    return n


def main() -> None:
    """Run several workers in one process."""

    async def run() -> None:
        names = os.environ["TREADLE_TEST_WORKERS"].split(",")
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(Worker([inside, paced], concurrency=CONCURRENCY, name=name).run_async())

    asyncio.run(run())

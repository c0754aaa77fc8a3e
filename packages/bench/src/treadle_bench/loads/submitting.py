"""Submitters over the socket, each in a process of its own, written as a user of the SDK would."""

import asyncio
import random
import time
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

from treadle.client.bound import Bound
from treadle.client.client import Client
from treadle_bench.figures import BenchFailed
from treadle_bench.loads.tasks import carry, make_job, stamp

WARM_UP = 20
"""The number of tasks before latencies are measured, since the worker may still be starting."""

RESULT_SECONDS = 60.0
"""How long a result may take."""


async def submit(
    url: str, token: str, *, count: int, how: str, first_job: int = 0, jobs: int = 1, size: int = 0
) -> dict[str, float]:
    """Submit no-ops to `jobs` queues in turn; return the seconds until the last one was acknowledged.

    `how` is `one` (one after the other), `many` (100 coroutines) or `bulk` (1,000 per request, fewer if they are
    large). With `size`, they carry a payload of about that many bytes.
    """
    bounds = _bounds(count, first_job, jobs, size)
    async with Client(url, token) as client:
        kinds = [carry] if size else [make_job(number) for number in range(first_job, first_job + jobs)]
        for kind in kinds:
            await client.register(kind)
        began = time.monotonic()
        match how:
            case "one":
                await _one_by_one(client, bounds)
            case "many":
                await asyncio.gather(*(_one_by_one(client, bounds) for _ in range(100)))
            case _:
                await _in_bulk(client, bounds, at_once=max(1, min(1000, 4_000_000 // max(1, size))))
        return {"seconds": time.monotonic() - began}


async def pace(url: str, token: str, *, rate: int, seconds: float) -> dict[str, int]:
    """Submit no-ops at a steady rate, in steps of a tenth of a second; return how many were submitted."""
    submitted = 0
    async with Client(url, token) as client:
        kind = make_job(0)
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            due = round(min(passed + 0.1, seconds) * rate) - submitted
            await asyncio.gather(*(client.submit(kind.bind(submitted + n)) for n in range(due)))
            submitted += due
            await asyncio.sleep(max(0.0, began + submitted / rate - time.monotonic()))
    return {"submitted": submitted}


async def latency(
    url: str, token: str, *, count: int = 1_000_000, size: int = 0, seconds: float = float("inf")
) -> dict[str, list[float]]:
    """Submit tasks one at a time with random gaps; return the ms to the start of their code and to their results.

    Ends after `count` tasks or `seconds`, but not without at least one.

    Raises `BenchFailed` if a result is not what the task returned.
    """
    task, more = (carry, {"data": "x" * size}) if size else (stamp, {})
    starts: list[float] = []
    results: list[float] = []
    async with Client(url, token) as client:
        over = time.monotonic() + seconds
        for n in range(WARM_UP + count):
            if n > WARM_UP and time.monotonic() >= over:
                break
            bound: Bound[int] = task.bind(n=n, **more)
            before = time.monotonic_ns()
            handle = await client.submit(bound, wait=True)
            started = await handle.result(RESULT_SECONDS)
            after = time.monotonic_ns()
            if not before <= started <= after:
                raise BenchFailed(f"a task reports that it started at {started}, outside of {before} to {after}")
            starts.append((started - before) / 1e6)
            results.append((after - before) / 1e6)
            await asyncio.sleep(random.uniform(0.005, 0.03))
    return {"start": starts[WARM_UP:], "result": results[WARM_UP:]}


def _bounds(count: int, first_job: int, jobs: int, size: int) -> Iterator[Bound[Any]]:
    if size:
        data = "x" * size
        return (carry.bind(n=n, data=data) for n in range(count))
    queues = cycle(make_job(number) for number in range(first_job, first_job + jobs))
    return (queue.bind(n) for n, queue in zip(range(count), queues, strict=False))


async def _one_by_one(client: Client, bounds: Iterator[Bound[Any]]) -> None:
    for bound in bounds:
        await client.submit(bound)


async def _in_bulk(client: Client, bounds: Iterator[Bound[Any]], *, at_once: int) -> None:
    while bulk := list(islice(bounds, at_once)):
        await client.submit_many(bulk)

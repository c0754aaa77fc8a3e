"""Measures what limits cost: `python -m tests.bench.limits --help`.

Two questions, each asked of two engines in this process, in turn, by its processor time. `keys`: claims of fifty where
each task has a key of its own, and where none has a limit. `others`: submits, claims and reports of one queue while
another waits behind a full limit, and while it waits for a worker.
"""

import argparse
import asyncio
import gc
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.report import show
from tests.bench.site import databases, new_database
from tests.engine.conftest import ADMIN, Shop
from treadle_server.cli import calm_collector
from treadle_server.domain.limits import Caps
from treadle_server.engine.commands import SetLimit, Submission, Submit
from treadle_server.engine.engine import Engine
from treadle_server.store.store import SqlStore

MOST = 50
BULK = 500
KEYS_BOUND = 1.5
OTHERS_BOUND = 1.05

Turn = Callable[[], Awaitable[float]]


@asynccontextmanager
async def open_shop(database: str) -> AsyncIterator[Shop]:
    """Open an engine on an empty database, with a limit of one at once for each key."""
    with TemporaryDirectory(prefix="treadle-bench-") as directory:
        store = SqlStore(await new_database(database, Path(directory)))
        await store.open()
        try:
            async with Engine(store).running() as engine:
                shop = Shop(engine)
                await shop.register()
                caps = Caps(concurrency=1, rate_count=None, rate_seconds=None, rate_burst=None)
                await engine.run(SetLimit(principal=ADMIN, room="@global", name="api", caps=caps))
                yield shop
        finally:
            await store.close()


async def fill(shop: Shop, job: str, count: int, key: Callable[[int], str] | None) -> None:
    """Put tasks in, each against its key of the limit; without one they have no limit."""
    for start in range(0, count, BULK):
        items = [
            Submission(
                job_name=job,
                payload="{}",
                content_hash=b"x",
                limits=None if key is None else [{"name": "api", "key": key(n), "weight": None}],
            )
            for n in range(start, min(start + BULK, count))
        ]
        await shop.engine.run(Submit(principal=ADMIN, room="@global", items=items))


async def keys(stack: AsyncExitStack, database: str, count: int, *, limited: bool) -> Turn:
    """Return a claim of fifty out of so many tasks, each with a key of its own, or without limits."""
    shop = await stack.enter_async_context(open_shop(database))
    await fill(shop, shop.job, count, "k{}".format if limited else None)
    worker = await shop.worker()

    async def turn() -> float:
        began = time.process_time()
        claimed = await shop.claim(worker, MOST)
        took = time.process_time() - began
        for task in claimed:
            await shop.run(task)
        return took

    return turn


async def others(stack: AsyncExitStack, database: str, count: int, *, limited: bool) -> Turn:
    """Return what ten tasks of a queue take beside so many that wait: for a full limit, or for a worker."""
    shop = await stack.enter_async_context(open_shop(database))
    waiting = await shop.register("waiting")
    await fill(shop, waiting, count, "all".format if limited else None)
    if limited:
        [_] = await shop.claim(await shop.worker(waiting), 1)
    worker = await shop.worker()

    async def turn() -> float:
        began = time.process_time()
        await shop.submit(10)
        for task in await shop.claim(worker, 10):
            await shop.run(task)
        return time.process_time() - began

    return turn


async def measure(kind: str, question: str, count: int, rounds: int) -> bool:
    """Take both in turn, print what they took in milliseconds, and return whether that is within the bound."""
    make, bound = (keys, KEYS_BOUND) if question == "keys" else (others, OTHERS_BOUND)
    # As a server has it: one look of the collector through all that was imported and filled in is 40 claims long.
    calm_collector()
    with databases(kind) as database:
        async with AsyncExitStack() as stack:
            turns = {limited: await make(stack, database, count, limited=limited) for limited in (False, True)}
            gc.freeze()
            for turn in turns.values():
                await turn()
            took: dict[bool, list[float]] = {False: [], True: []}
            for n in range(rounds):
                # The one that goes first finds the caches of the processor cold.
                for limited in (False, True) if n % 2 else (True, False):
                    took[limited].append(await turns[limited]() * 1000)
    rows: list[dict[str, Any]] = [
        {"limited": limited, "waiting": count, "ms": fmean(times), "median ms": median(times)}
        for limited, times in took.items()
    ]
    # Not of the medians: what is read ahead is paid by one claim of several.
    ratio = sum(took[True]) / sum(took[False])
    show(f"Limits on {kind}: {question}", rows, {"times slower": ratio, "bound": bound})
    return ratio <= bound


def main() -> None:
    """Read the sizes and measure; the exit code is 1 when the bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", choices=["keys", "others"])
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--waiting", type=int, help="tasks that wait; 10,000 or 100,000 unless given")
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    logging.disable(logging.INFO)
    count = given.waiting or (10_000 if given.question == "keys" else 100_000)
    sys.exit(not asyncio.run(measure(given.database, given.question, count, given.rounds)))


if __name__ == "__main__":
    main()

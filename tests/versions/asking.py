"""A client of either version: what it asks for, and how it is answered, in a file; run by its version's interpreter.

`python -m tests.versions.asking FILE SECONDS SEED`, with TREADLE_URL and TREADLE_TOKEN. It ends when every task has.
"""

import asyncio
import pickle
import random
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.history.recorder import of_client
from tests.history.records import Said
from tests.storm.labour import labour, toil
from tests.storm.load import Load
from treadle import Client
from treadle.errors import InternalServerError, TreadleError

OPEN = ["scheduled", "pending", "claimed", "running", "paused"]
"""The states that every version knows in which a task is not over."""

READY = "ready"
"""What it prints once a server has answered."""

RATE = 150.0
"""Tasks a second."""

DRAIN = 120.0
"""Seconds within which all that was put in has ended, on a busy machine."""


async def ask(name: str, seconds: float, seed: int) -> list[Said]:
    """Put tasks in and steer them for so long, then let all of them end; return what was said."""
    said: list[Said] = []
    async with Client(patience=30) as client:
        await _register(client)
        print(READY, flush=True)
        load = Load(of_client(name, client, said), random.Random(seed), rate=RATE, backlog=int, is_plain=True)
        working = [asyncio.ensure_future(work()) for work in (load.submit, load.steer)]
        await asyncio.sleep(seconds)
        load.is_over = True
        await asyncio.gather(*working)
        await _calm(client, load)
    return said


async def _register(client: Client) -> None:
    """Register what it submits. A server that a newer one has outdated says, up to schema 0018, that it has failed."""
    limit = time.monotonic() + DRAIN
    for task in (labour, toil):
        while True:
            try:
                await client.register(task)
            except InternalServerError:
                if time.monotonic() > limit:
                    raise
                await asyncio.sleep(0.2)
            else:
                break


async def _calm(client: Client, load: Load) -> None:
    """Resume what is paused until every task has ended."""
    limit, left = time.monotonic() + DRAIN, None
    while time.monotonic() < limit:
        await load.resume()
        with suppress(TreadleError):
            left = (await client.list(status=OPEN, limit=500)).items
            if not left:
                return
            load.paused |= {one.id for one in left if str(one.status) == "paused"}
        await asyncio.sleep(0.2)
    raise SystemExit(f"not all tasks have ended: {left}")


if __name__ == "__main__":
    kept = Path(sys.argv[1])
    kept.write_bytes(pickle.dumps(asyncio.run(ask(kept.stem, float(sys.argv[2]), int(sys.argv[3])))))

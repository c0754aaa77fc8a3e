"""Faults where Treadle meets the store and the clock, in this process: no root, no other program, no process killed."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from tests.history.records import Era
from treadle_server.clock import SystemClock
from treadle_server.errors import StoreUnavailable
from treadle_server.store.base import Tx
from treadle_server.store.store import SqlStore

STEPS = (60.0, 8.0, -8.0, -60.0)
"""Seconds by which the clock is set."""


class SteppingClock(SystemClock):
    """A time of day that may be set."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self.eras = [Era(float("-inf"), time.time() - time.monotonic())]
        """What it showed, by the monotonic clock."""

    def step(self, seconds: float) -> None:
        """Set it."""
        self._ahead += seconds
        self.eras.append(Era(time.monotonic(), self.eras[-1].off + seconds))

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._ahead)


class FaultyStore:
    """Has the writes of a store fail, before and after their commit, or take their time."""

    def __init__(self, store: SqlStore, chance: random.Random) -> None:
        self._write = store.write
        self._chance = chance
        self.share = 0.0
        """Of transactions that something happens to."""
        self.faults: Counter[str] = Counter()
        store.write = self.write  # type: ignore[method-assign]

    @asynccontextmanager
    async def write(self, **how: Any) -> AsyncIterator[Tx]:
        """Open a transaction as the store does, and have this one fail if it is its turn."""
        kind = ""
        if self._chance.random() < self.share:
            kind = self._chance.choice(("refused", "broken", "slow", "unheard"))
            self.faults[kind] += 1
        if kind == "refused":
            raise StoreUnavailable("it is not there; nothing was changed")
        if kind == "slow":
            await asyncio.sleep(self._chance.uniform(0, 0.2))
        async with self._write(**how) as tx:
            yield tx
            if kind == "broken":
                raise StoreUnavailable("it broke; nothing was changed")
        if kind == "unheard":
            raise StoreUnavailable("it was done, and nobody told; whether it was done is unknown")


async def torment(
    store: FaultyStore, clock: SteppingClock, chance: random.Random, seconds: float, enough: Callable[[], bool]
) -> None:
    """Let bad times and good ones follow each other for so long and until it is enough; in the end all is well."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until or not enough():
        store.share = chance.choice((0.0, 0.1, 0.5, 1.0))
        if chance.random() < 0.3:
            clock.step(chance.choice(STEPS))
            store.faults["clock"] += 1
        await asyncio.sleep(chance.uniform(0.05, 0.5))
    store.share = 0.0
    # What was put in while the clock showed a later time is due at last.
    clock.step(600)

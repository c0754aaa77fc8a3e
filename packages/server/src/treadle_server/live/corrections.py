"""Schedules the corrections of windows: soon after a commit, all together, at most ten times a second."""

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from time import thread_time
from typing import Generic, TypeVar

from treadle_server.engine.hub import Batch
from treadle_server.live.changes import ChangeCollector, Round
from treadle_server.services.base import Service

W = TypeVar("W")

INTERVAL = 0.1
"""Seconds between two rounds, unless they take much."""

LONGEST_INTERVAL = 0.17
"""Seconds between two rounds whatever they take: what dashboards show stays less than a quarter of a second old, with
the 40 to 70 ms that a commit takes to be told, sent and read in a drain."""

SHARE = 50
"""In between, rounds take at most a fiftieth of the event loop's time; sending what they tell takes as much again."""

MOST = 10_000
"""Tasks of one round; when more have changed, the windows are read anew, which holds nobody up.

A drain on SQLite changes some 6,400 between two rounds: by the half of that, what was shown was up to 0.9 s old.
"""

IDLE = 60.0
"""Seconds until the next turn when nothing has changed; a commit ends that."""


HOLD_SECONDS = 0.025
"""How long a round keeps the event loop to itself, but for the window that it is at.

Where 10,000 rows change that 20 dashboards show in different places, all of it takes 130 ms, and one window up to 20.
"""


class Corrections(Service, Generic[W]):
    """Gathers what commits change, and has it shown by each of some windows."""

    name = "corrections"
    everywhere = True

    def __init__(self, windows: AbstractSet[W], correct: Callable[[W, Round], None], lose: Callable[[], None]) -> None:
        """`correct` is given each of the windows and what changed; `lose` is called when that is not known."""
        super().__init__()
        self._windows = windows
        self._correct = correct
        self._lose = lose
        self._changes = ChangeCollector()
        self._due_at = 0.0
        self.since: float | None = None
        """Since when something has changed that is not shown yet, by the loop's clock."""

    def on_commit(self, batch: Batch) -> None:
        """Note what a commit changed."""
        is_first = not self._changes
        self._changes.note(batch)
        if self._changes.is_over(MOST):
            self.clear()
            self._lose()
        elif is_first and self._changes:
            self.since = asyncio.get_running_loop().time()
            self.wake()

    def clear(self) -> None:
        """Forget what has gathered: nobody looks any more."""
        self._changes.clear()
        self.since = None

    async def turn(self) -> float:
        """Show what has gathered, if it is time."""
        loop = asyncio.get_running_loop()
        if not self._changes:
            return IDLE
        if (left := self._due_at - loop.time()) > 0:
            return left
        changed, self.since = self._changes.take(), None
        spent = await self._show(changed)
        if self._changes.has_lost:
            self.clear()
            self._lose()
        self._due_at = loop.time() + min(LONGEST_INTERVAL, max(INTERVAL, SHARE * spent))
        return self._due_at - loop.time() if self._changes else IDLE

    async def _show(self, changed: Round) -> float:
        """Have each window show what changed, and return how many seconds that took this thread."""
        loop = asyncio.get_running_loop()
        until, began, spent = loop.time() + HOLD_SECONDS, thread_time(), 0.0
        for window in list(self._windows):
            if loop.time() >= until:
                spent += thread_time() - began
                await asyncio.sleep(0)
                # The writer had its turn too, and may have moved tasks on.
                changed = changed.anew()
                until, began = loop.time() + HOLD_SECONDS, thread_time()
            if window in self._windows:
                self._correct(window, changed)
        return spent + thread_time() - began

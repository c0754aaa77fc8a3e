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
"""Seconds between two rounds, unless they are expensive."""

LONGEST_INTERVAL = 0.17
"""Most seconds between two rounds, however expensive they are. With the 40 to 70 ms from a commit until it is reported,
sent and read in a drain, what dashboards show stays less than a quarter of a second old."""

SHARE = 50
"""Between these bounds, rounds take at most a fiftieth of the event loop's time; sending their results takes as much
again."""

MOST = 10_000
"""Most tasks in one round; when more have changed, the windows are read again instead, which blocks nobody.

A drain on SQLite changes some 6,400 between two rounds: with half of that as the limit, windows were up to 0.9 s old.
"""

IDLE = 60.0
"""Seconds until the next turn when nothing has changed; a commit ends the wait."""


HOLD_SECONDS = 0.025
"""Seconds for which a round may block the event loop, plus the rest of the window that it is correcting.

When 10,000 rows change that 20 dashboards show in different places, a round takes 130 ms in all, and one window up to
20.
"""


class Corrections(Service, Generic[W]):
    """Gathers what commits change, and corrects each of a set of windows by it."""

    name = "corrections"
    everywhere = True

    def __init__(self, windows: AbstractSet[W], correct: Callable[[W, Round], None], lose: Callable[[], None]) -> None:
        """`correct` is called with each window and the changes; `lose` is called when the changes are not known."""
        super().__init__()
        self._windows = windows
        self._correct = correct
        self._lose = lose
        self._changes = ChangeCollector()
        self._due_at = 0.0
        self.since: float | None = None
        """The time of the earliest change that is not shown yet, by the loop's clock; None if there is none."""

    def on_commit(self, batch: Batch) -> None:
        """Gather a commit's changes."""
        is_first = not self._changes
        self._changes.note(batch)
        if self._changes.is_over(MOST):
            self.clear()
            self._lose()
        elif is_first and self._changes:
            self.since = asyncio.get_running_loop().time()
            self.wake()

    def clear(self) -> None:
        """Forget the gathered changes."""
        self._changes.clear()
        self.since = None

    async def turn(self) -> float:
        """Correct the windows, if it is time."""
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
        """Correct each window, and return the seconds that this took the thread."""
        loop = asyncio.get_running_loop()
        until, began, spent = loop.time() + HOLD_SECONDS, thread_time(), 0.0
        for window in list(self._windows):
            if loop.time() >= until:
                spent += thread_time() - began
                await asyncio.sleep(0)
                # Meanwhile the writer may have changed tasks.
                changed = changed.copy()
                until, began = loop.time() + HOLD_SECONDS, thread_time()
            if window in self._windows:
                self._correct(window, changed)
        return spent + thread_time() - began

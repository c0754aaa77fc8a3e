"""Retention: removes ended tasks whose retention is over, oldest first, in steps small enough not to disturb others.

So it does with the rows of workers that were lost before all of that.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from time import perf_counter

from treadle.wire.status import TERMINAL, Status
from treadle_server.artifacts.objects import Objects
from treadle_server.engine.commands.prune import PruneTasks, PruneWorkers
from treadle_server.engine.engine import Engine
from treadle_server.errors import TooManyRequests
from treadle_server.services.base import EngineService
from treadle_server.store.transaction.prune import Cutoffs, Pruning, Removed, candidates, last_before, lost_workers

log = logging.getLogger(__name__)

EVERY = 60.0
"""Seconds between two walks over the tasks."""

LOOKED_AT_ONCE = 2_000
"""Most tasks that a reader finds in one statement; the writer then removes them in several steps."""

TARGET_SECONDS = 0.004
"""Seconds for which a step should hold the writer: less than a request waits anyway."""

REST = 4.0
"""A step is followed by a pause of this multiple of its length, including its commit, which leaves others four fifths
of the time."""

LEAST_REST = 0.01
"""The shortest pause in seconds, and the whole pause when nobody else uses the writer."""

BUSY_REST = 1.0
"""Seconds to wait when the writer is so busy that it rejects submits."""

FIRST_ROWS = 10
LEAST_ROWS = 5
"""With fewer the cost of the commit would dominate; a step ends when its time is up anyway."""

MOST_ROWS = 400

MOST_WORKERS = 200
"""Most rows of lost workers that are removed after a walk."""


class StepPace:
    """How many tasks a step takes, by the cost of earlier steps."""

    def __init__(self) -> None:
        self.rows = FIRST_ROWS
        self.rest = LEAST_REST
        self._cost = 0.0
        """Seconds for each task, smoothed; a rise counts at once."""

    def note(self, rows: int, seconds: float, whole: float, *, is_alone: bool) -> None:
        """Learn from a step with `rows` tasks that took `seconds`, or `whole` with its commit and others' work.

        `is_alone` says that nothing else was written since the previous step.
        """
        cost = seconds / max(rows, 1)
        self._cost = cost if cost >= self._cost else self._cost + (cost - self._cost) * 0.2
        fitting = int(TARGET_SECONDS / self._cost) if self._cost > 0 else MOST_ROWS
        self.rows = max(LEAST_ROWS, min(fitting, 2 * self.rows, MOST_ROWS))
        self.rest = LEAST_REST if is_alone else max(LEAST_REST, REST * whole)


class RetentionWalk:
    """A walk over the tasks from the oldest on; each `step` removes some."""

    def __init__(self, engine: Engine, cutoffs: Cutoffs, objects: Objects | None = None) -> None:
        self.pace = StepPace()
        self.removed: Counter[tuple[str, Status]] = Counter()
        """How many tasks were removed, by job and status."""
        self._engine = engine
        self._cutoffs = cutoffs
        self._objects = objects
        self._waiting: list[int] = []
        self._after = 0
        self._upto: int | None = None
        self._commits = engine.commit_seconds.count

    async def step(self) -> list[Removed] | None:
        """Remove some tasks and return them; None when the walk is over. Raises `StoreUnavailable`."""
        if not self._waiting:
            await self._look()
        if not self._waiting:
            return None
        portion = self._waiting[: self.pace.rows]
        try:
            done: Pruning = await self._engine.run(PruneTasks(seqs=portion, cutoffs=self._cutoffs))
        except TooManyRequests:
            # Submits have priority; the portion is tried again later.
            self.pace.rest = BUSY_REST
            return []
        self._waiting[: len(portion)] = done.left
        self.removed.update((task.job_name, task.status) for task in done.removed)
        before, self._commits = self._commits, self._engine.commit_seconds.count
        is_alone = done.is_alone and self._commits == before + 1
        self.pace.note(len(portion) - len(done.left), done.seconds, perf_counter() - done.began_at, is_alone=is_alone)
        if self._objects is not None and done.locations:
            # The tasks are removed already, so a failure to remove their objects must not end the walk.
            await self._objects.remove(done.locations)
        return done.removed

    async def _look(self) -> None:
        """Find the next removable tasks; there are none among those submitted after the last cutoff."""
        async with self._engine.store.read() as connection:
            if self._upto is None:
                self._upto = await last_before(connection, max(self._cutoffs.values()))
            self._waiting = await candidates(
                connection, self._cutoffs, after=self._after, upto=self._upto, most=LOOKED_AT_ONCE
            )
        self._after = self._waiting[-1] if self._waiting else self._upto


def cutoffs_of(ages: Mapping[Status, timedelta], now: datetime) -> dict[Status, datetime]:
    """Return the instants by which tasks of each status must have ended to be removed."""
    return {status: now - age for status, age in ages.items()}


class Retention(EngineService):
    """Removes tasks that ended longer ago than the retention of their status; one step a turn."""

    name = "retention"

    def __init__(self, engine: Engine, ages: Mapping[Status, timedelta], objects: Objects | None = None) -> None:
        super().__init__(engine)
        self._ages = ages
        self._objects = objects
        self._walk: RetentionWalk | None = None

    def take_over(self) -> None:
        """Start a new walk: another server has removed tasks until now."""
        self._walk = None

    async def turn(self) -> float:
        """Take the next step of the walk, or the first of a new one; do nothing when all tasks are kept for ever."""
        if not self._ages:
            return EVERY
        if self._walk is None:
            self._walk = RetentionWalk(self._engine, cutoffs_of(self._ages, self._engine.clock.now()), self._objects)
        if await self._walk.step() is not None:
            return self._walk.pace.rest
        if gone := self._walk.removed.total():
            log.info("removed %d ended tasks whose retention was over", gone)
        self._walk = None
        await self._forget_workers()
        return EVERY

    async def _forget_workers(self) -> None:
        """Remove workers that were lost longer ago than any ended task is kept; none if some are kept for ever."""
        if self._ages.keys() < TERMINAL:
            return
        before = self._engine.clock.now() - max(self._ages.values())
        async with self._engine.store.read() as connection:
            ids = await lost_workers(connection, before, most=MOST_WORKERS)
        if ids:
            with suppress(TooManyRequests):  # the next walk comes by
                await self._engine.run(PruneWorkers(ids=ids, before=before))

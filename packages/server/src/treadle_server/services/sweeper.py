"""The sweeper: takes runs from workers that are gone, fails what is overdue, ends holds, deletes orphans (G8, Z11)."""

import logging
from datetime import datetime, timedelta

from treadle_server.engine.commands import (
    DeleteOrphans,
    ExpireLeases,
    MissDeadlines,
    ReleaseHolds,
    RestampLeases,
    SweepWorkers,
)
from treadle_server.engine.commands.sweeps import MOST
from treadle_server.engine.engine import Engine
from treadle_server.services.base import Interval
from treadle_server.store.orphans import possible_orphans

log = logging.getLogger(__name__)

JUMP = 5.0
"""Seconds by which the clock may part from the time that passed, before every lease is stamped anew."""


class Sweeper(Interval):
    """Sweeps every `interval` seconds; the first turn, or one after an outage or a jump of the clock, renews leases."""

    name = "sweeper"

    def __init__(self, engine: Engine, *, interval: float, worker_timeout: float) -> None:
        super().__init__()
        self._engine = engine
        self._interval = interval
        self._worker_timeout = worker_timeout
        self._last: tuple[float, float] | None = None
        self._stamped_at: datetime | None = None

    def take_over(self) -> None:
        """Renew every lease first: the server that led is gone, and its workers are on their way to another."""
        self._last = None

    async def turn(self) -> float:
        """Sweep once."""
        clock = self._engine.clock
        times = (clock.monotonic(), clock.now().timestamp())
        if self._last is None or self._has_jumped(times):
            # After an outage nobody is to blame for the heartbeats that could not be sent.
            stamped = await self._engine.run(RestampLeases(self._jump(times)))
            self._stamped_at = clock.now()
            log.info("%d leases stamped anew", stamped)
        else:
            await self._sweep()
        self._last = times
        return self._interval

    def _has_jumped(self, times: tuple[float, float]) -> bool:
        assert self._last is not None
        passed, shown = (new - old for new, old in zip(times, self._last, strict=True))
        return abs(passed - shown) > JUMP or passed > self._interval + 2 * JUMP

    def _jump(self, times: tuple[float, float]) -> timedelta:
        """Return by how much the clock has parted from the time that passed, if that is more than it may."""
        if self._last is None:
            return timedelta(0)
        passed, shown = (new - old for new, old in zip(times, self._last, strict=True))
        return timedelta(seconds=shown - passed) if abs(shown - passed) > JUMP else timedelta(0)

    async def _sweep(self) -> None:
        run = self._engine.run
        for command in (MissDeadlines(), ExpireLeases(self._stamped_at)):
            taken = MOST
            while taken >= MOST:
                taken = await run(command)
        await run(ReleaseHolds())
        for worker_id in await run(SweepWorkers(self._worker_timeout)):
            log.warning("worker %s was not heard of for %g s and is lost", worker_id, self._worker_timeout)
        async with self._engine.store.read() as connection:
            orphans = await possible_orphans(connection)
        if orphans:
            await run(DeleteOrphans(orphans))

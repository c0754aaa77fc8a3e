"""The sweeper: takes runs from workers that are gone, fails what is overdue, ends holds, deletes orphans (G8, Z11).

It also deletes full buckets of limits: otherwise each key would leave a row for ever.
"""

import logging
from datetime import UTC, datetime, timedelta

from treadle.wire.amounts import counted, in_seconds
from treadle.wire.log_lines import bound
from treadle_server.engine.commands import (
    DeleteOrphans,
    ExpireLeases,
    ForgetIdle,
    MissDeadlines,
    ReleaseHolds,
    RestampLeases,
    RestampPresent,
    SweepWorkers,
)
from treadle_server.engine.commands.sweeps import GRACE, MOST
from treadle_server.engine.engine import Engine
from treadle_server.engine.read_set import MOST_WORKERS
from treadle_server.services.base import EngineService
from treadle_server.store.read.jobs import possible_orphans
from treadle_server.store.read.limit_keys import idle_buckets
from treadle_server.store.transaction.limits import next_timeout
from treadle_server.store.transaction.restamp import leased_seqs

log = logging.getLogger(__name__)

JUMP = 5.0
"""Seconds by which the clock may differ from the elapsed time before every lease is renewed."""


MOST_STAMPED = 2_000
"""Leases that one transaction renews."""

SHORTEST = 0.05
"""Least seconds between two sweeps."""


class Sweeper(EngineService):
    """Sweeps every `interval` seconds; the first turn, or one after an outage or a jump of the clock, renews leases."""

    name = "sweeper"

    def __init__(self, engine: Engine, *, interval: float, worker_timeout: float) -> None:
        super().__init__(engine)
        self._interval = interval
        self._grace = min(GRACE, interval)
        self._worker_timeout = worker_timeout
        self._last: tuple[float, float] | None = None
        self._stamped_at: datetime | None = None
        self._looked_at: int | None = None
        """The last of the limits' buckets that the walk has checked."""

    def take_over(self) -> None:
        """Renew every lease first: the previous leader is gone, and its workers are reconnecting to other servers."""
        self._last = None

    async def turn(self) -> float:
        """Sweep once; after an outage or a jump of the clock, renew every lease instead."""
        await self._engine.store.read_clock()
        clock = self._engine.clock
        now = clock.now()
        times = (clock.monotonic(), now.timestamp())
        # A clock set forward and back since the last turn looks right, but leases granted in between end wrongly.
        set_by = self._engine.drift.take(now)
        if self._last is None or set_by > JUMP or self._was_out(times):
            # After an outage missing heartbeats are not the workers' fault.
            await self._restamp(self._jump(times))
        else:
            await self._sweep(times)
        self._last = times
        return await self._pause()

    def _was_out(self, times: tuple[float, float]) -> bool:
        assert self._last is not None
        return times[0] - self._last[0] > self._interval + 2 * JUMP

    def _jump(self, times: tuple[float, float]) -> timedelta:
        """Return the difference between the clock and the elapsed time, if it exceeds `JUMP`; otherwise zero."""
        if self._last is None:
            return timedelta(0)
        passed, shown = (new - old for new, old in zip(times, self._last, strict=True))
        return timedelta(seconds=shown - passed) if abs(shown - passed) > JUMP else timedelta(0)

    async def _restamp(self, jump: timedelta) -> None:
        after = await self._engine.run(RestampPresent())
        while after is not None:
            after = await self._engine.run(RestampPresent(after))
        async with self._engine.store.read() as connection:
            leased = await leased_seqs(connection)
        for first in range(0, len(leased), MOST_STAMPED):
            await self._engine.run(RestampLeases(leased[first : first + MOST_STAMPED], jump))
        self._stamped_at = self._engine.clock.now()
        if leased:
            log.info("renewed %s after an outage, a clock jump or a new leader", counted(len(leased), "lease"))

    async def _sweep(self, began: tuple[float, float]) -> None:
        run = self._engine.run
        while await run(MissDeadlines()) >= MOST:
            pass
        while await run(ExpireLeases(self._stamped_at, self._until(began), self._grace)) >= MOST:
            pass
        await run(ReleaseHolds(self._until(began)))
        while lost := await run(SweepWorkers(self._worker_timeout, self._until(began))):
            for worker_id in lost:
                with bound(worker=worker_id):
                    log.warning("worker %s is lost: no heartbeat for %s", worker_id, in_seconds(self._worker_timeout))
            if len(lost) < MOST_WORKERS:
                break
        async with self._engine.store.read() as connection:
            orphans = await possible_orphans(connection)
        for first in range(0, len(orphans), MOST):
            await run(DeleteOrphans(orphans[first : first + MOST]))
        await self._forget_idle()

    async def _forget_idle(self) -> None:
        """Delete full buckets of limits, among the next ones of a walk over all."""
        async with self._engine.store.read() as connection:
            idle, self._looked_at = await idle_buckets(connection, self._engine.clock.now(), after=self._looked_at)
        for first in range(0, len(idle), MOST):
            await self._engine.run(ForgetIdle(idle[first : first + MOST]))

    def _until(self, began: tuple[float, float]) -> datetime:
        """Return the latest time that this sweep may use, so that a jump of the clock meanwhile ends nobody's lease."""
        monotonic, shown = began
        passed = self._engine.clock.monotonic() - monotonic
        return datetime.fromtimestamp(shown + passed + JUMP, UTC)

    async def _pause(self) -> float:
        """Return the seconds until the next sweep, which comes early for a run's timeout before that."""
        now = self._engine.clock.now()
        async with self._engine.store.read() as connection:
            ends = await next_timeout(connection, now - timedelta(seconds=self._grace))
        if ends is None:
            return self._interval
        left = (ends - now).total_seconds() + self._grace
        return min(self._interval, max(SHORTEST, left))

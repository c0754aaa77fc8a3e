"""Stops a worker that has had nothing to run for a while, for use under a scheduler or an autoscaler."""

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from treadle.clock import monotonic
from treadle.wire.amounts import in_seconds

if TYPE_CHECKING:
    from treadle.worker.lease import Leases
    from treadle.worker.runner import Runner

log: logging.Logger = logging.getLogger("treadle.worker")


class IdleStop:
    """Sets `stops` once the worker has been open and held no run for `longest` seconds."""

    def __init__(self, longest: float, leases: "Leases", online: asyncio.Event, stops: asyncio.Event) -> None:
        self._longest = longest
        self._leases = leases
        self._online = online
        self._stops = stops
        self._opened_at = -math.inf

    def opened(self) -> None:
        """Restart the count, because the worker was opened: tasks may arrive from now on."""
        self._opened_at = monotonic()

    async def run(self, runner: "Runner") -> None:
        """Wait until the worker has been idle for long enough, and stop it."""
        while (left := self._longest - self._idle_seconds(runner)) > 0:  # noqa: ASYNC110 - sleeps for what is left
            await asyncio.sleep(left)
        log.info("there was nothing to run for %s: stopping the worker", in_seconds(self._longest))
        self._stops.set()

    def _idle_seconds(self, runner: "Runner") -> float:
        if self._leases.held or not self._online.is_set():
            return 0.0
        return monotonic() - max(self._opened_at, runner.ended_at)

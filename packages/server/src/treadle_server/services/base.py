"""A service: one turn after another, supervised. A turn that fails is logged, counted, and tried again later."""

import asyncio
import logging
import random
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from treadle_server.clock import Clock

log = logging.getLogger(__name__)

LONGEST_BACKOFF = 30.0
"""Seconds between tries of a service that keeps failing."""


class Service(Protocol):
    """Something to be done again and again."""

    name: str

    async def turn(self) -> float:
        """Do it once, and return after how many seconds at the latest it wants to be called again."""
        ...

    async def wait(self, seconds: float) -> None:
        """Wait so long, or until there is something to do."""
        ...


@dataclass(slots=True)
class Health:
    """How a service does: when it last had a good turn, and how many failed since."""

    name: str
    last_good_at: datetime | None = None
    failures: int = 0
    error: str | None = None

    @property
    def is_well(self) -> bool:
        """Return whether its last turn was good."""
        return self.failures == 0 and self.last_good_at is not None


class Interval:
    """Waits a plain time between turns; woken early by `wake`."""

    def __init__(self) -> None:
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """End the present wait."""
        self._wake.set()

    async def wait(self, seconds: float) -> None:
        """Wait so long, or until woken."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._wake.clear()


async def supervise(service: Service, health: Health, clock: Clock) -> None:
    """Run the service for ever."""
    while True:
        try:
            pause = await service.turn()
        except Exception as error:
            health.failures += 1
            health.error = str(error) or type(error).__name__
            level = logging.WARNING if health.failures > 1 else logging.ERROR
            log.log(level, "service %s failed %d times: %s", service.name, health.failures, health.error, exc_info=True)
            pause = min(LONGEST_BACKOFF, 2.0 ** min(health.failures, 6) / 4) * (0.5 + random.random())
        else:
            health.last_good_at = clock.now()
            health.failures = 0
            health.error = None
        await service.wait(pause)

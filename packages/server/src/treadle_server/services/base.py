"""A service: one turn after another, supervised. A turn that fails is logged, counted, and tried again later."""

import asyncio
import logging
import random
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from treadle_server.clock import Clock
from treadle_server.errors import StoreUnavailable

if TYPE_CHECKING:
    from treadle_server.services.leader import Leading

log = logging.getLogger(__name__)

LONGEST_BACKOFF = 30.0
"""Seconds between tries of a service that keeps failing."""

LONGEST_OUTAGE_BACKOFF = 2.0
"""The same when it is the database that does not answer: it is to go on soon after that is back."""


class Service(Protocol):
    """Something to be done again and again."""

    name: str
    everywhere: bool
    """Whether it runs on each of several servers on one database; else on the one that leads."""

    def take_over(self) -> None:
        """Begin anew: this server leads from now on, and another one did until now."""
        ...

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
    is_standby: bool = False
    """Whether it waits for this server to lead."""

    @property
    def is_well(self) -> bool:
        """Return whether its last turn was good, or another server does its work."""
        return self.is_standby or (self.failures == 0 and self.last_good_at is not None)

    @property
    def state(self) -> str:
        """Return how it does, in a word or its last error."""
        if self.is_standby:
            return "standby"
        return "ok" if self.is_well else self.error or "starting"


class Interval:
    """Waits a plain time between turns; woken early by `wake`."""

    everywhere = False

    def __init__(self) -> None:
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """End the present wait."""
        self._wake.set()

    def take_over(self) -> None:
        """Go on: there is nothing that an earlier turn has left."""

    async def wait(self, seconds: float) -> None:
        """Wait so long, or until woken."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._wake.clear()


async def supervise(service: Service, health: Health, clock: Clock, leader: "Leading | None" = None) -> None:
    """Run the service for ever: with a `leader`, while that is this server, unless it runs everywhere."""
    term = 0
    while True:
        if leader is not None and not service.everywhere:
            health.is_standby = not leader.is_leading
            await leader.until_leading()
            health.is_standby = False
            if leader.term != term:
                term = leader.term
                service.take_over()
        try:
            pause = await service.turn()
        except Exception as error:
            health.failures += 1
            health.error = str(error) or type(error).__name__
            level = logging.WARNING if health.failures > 1 else logging.ERROR
            log.log(level, "service %s failed %d times: %s", service.name, health.failures, health.error, exc_info=True)
            longest = LONGEST_OUTAGE_BACKOFF if isinstance(error, StoreUnavailable) else LONGEST_BACKOFF
            pause = min(longest, 2.0 ** min(health.failures, 6) / 4) * (0.5 + random.random())
        else:
            health.last_good_at = clock.now()
            health.failures = 0
            health.error = None
        await service.wait(pause)

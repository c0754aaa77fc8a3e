"""The base of services: supervised, one turn after another. A failed turn is logged, counted, and retried later."""

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from treadle.wire.amounts import counted
from treadle_server.clock import Clock
from treadle_server.engine.engine import Engine
from treadle_server.errors import StoreUnavailable, TreadleError

log = logging.getLogger(__name__)

LONGEST_BACKOFF = 30.0
"""Seconds between tries of a service that keeps failing."""

LONGEST_OUTAGE_BACKOFF = 2.0
"""The same while the database does not answer, so that the service resumes soon after it is back."""

LEAST_TURN = 0.01
"""Seconds from one turn's beginning to the next one's at least: a hundred turns a second, whatever wakes a service."""


class Leading(Protocol):
    """Knows whether this server is the leader."""

    @property
    def term(self) -> int:
        """Return how often this server was made the leader."""
        ...

    @property
    def is_leading(self) -> bool:
        """Return whether this server is the leader at this moment."""
        ...

    async def until_leading(self) -> None:
        """Wait until this server is the leader."""
        ...


WELL = frozenset({"ok", "standby"})
"""The states of a healthy service."""


@dataclass(slots=True)
class Health:
    """The health of a service: when its last good turn was, and how many have failed since."""

    name: str
    last_good_at: datetime | None = None
    failures: int = 0
    error: str | None = None
    is_standby: bool = False
    """Whether the service waits for this server to become the leader."""

    @property
    def state(self) -> str:
        """Return the health in a word, or the last error."""
        if self.is_standby:
            return "standby"
        return "ok" if not self.failures and self.last_good_at is not None else self.error or "starting"


class Service(ABC):
    """A job done repeatedly, with a pause between turns that `wake` ends early."""

    name: str
    everywhere = False
    """Whether it runs on each of several servers on one database; else on the one that leads."""
    least_turn = LEAST_TURN
    """Seconds from one turn's beginning to the next one's at least, whatever wakes it."""

    def __init__(self) -> None:
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """End the present wait."""
        self._wake.set()

    def take_over(self) -> None:  # noqa: B027 - most have nothing that an earlier turn left
        """Start over: this server has just taken over the lead from another."""

    @abstractmethod
    async def turn(self) -> float:
        """Do one turn, and return within how many seconds it wants to be called again."""

    async def wait(self, seconds: float) -> None:
        """Wait for so many seconds, or until woken."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._wake.clear()


class EngineService(Service):
    """A service that has the engine do something, or reads its store."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine


async def supervise(service: Service, health: Health, clock: Clock, leader: Leading | None = None) -> None:
    """Run the service for ever: with a `leader`, while that is this server, unless it runs everywhere.

    It turns a bounded number of times a second, and one that failed not before its back-off is over, whatever wakes it.
    """
    loop, next_at, term = asyncio.get_running_loop(), 0.0, 0
    while True:
        if leader is not None and not service.everywhere:
            health.is_standby = not leader.is_leading
            await leader.until_leading()
            health.is_standby = False
            if leader.term != term:
                term = leader.term
                service.take_over()
        # Yield to the loop even if no pause is due: neither a wait that was already woken nor a turn that fails at once
        # yields by itself, and whatever would cure the failure may be waiting for the loop.
        await asyncio.sleep(next_at - loop.time())
        next_at = loop.time() + service.least_turn
        try:
            pause = await service.turn()
        except Exception as error:  # noqa: BLE001 - logged, and shown by its health
            await asyncio.sleep(_failed(health, error))
        else:
            _went_well(health, clock)
            await service.wait(pause)


def _failed(health: Health, error: Exception) -> float:
    """Note a failure, and return the seconds until the next attempt."""
    health.failures += 1
    said, kind = str(error), type(error).__name__
    # Health is shown without a token, and an unforeseen error may quote anything, such as values a database refused.
    health.error = said if isinstance(error, TreadleError) else f"{kind}: the server's log has the traceback"
    is_outage = isinstance(error, StoreUnavailable)
    # Without the count, so that equal failures make equal log lines, which are folded.
    if is_outage:
        log.warning("service %s failed and will be retried: %s", health.name, said)
    else:
        log.error("service %s failed and will be retried: %s", health.name, said or kind, exc_info=error)
    longest = LONGEST_OUTAGE_BACKOFF if is_outage else LONGEST_BACKOFF
    return min(longest, 2.0 ** min(health.failures, 7) / 4) * (0.5 + random.random())


def _went_well(health: Health, clock: Clock) -> None:
    if health.failures:
        log.info("service %s works again after %s", health.name, counted(health.failures, "failure"))
    health.last_good_at = clock.now()
    health.failures = 0
    health.error = None

"""A service: one turn after another, supervised. A turn that fails is logged, counted, and tried again later."""

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
"""The same when it is the database that does not answer: it is to go on soon after that is back."""

LEAST_TURN = 0.01
"""Seconds from one turn's beginning to the next one's at least: a hundred turns a second, whatever wakes a service."""


class Leading(Protocol):
    """Who knows whether this server leads."""

    @property
    def term(self) -> int:
        """Return how often this server was made the leader."""
        ...

    @property
    def is_leading(self) -> bool:
        """Return whether it leads at this moment."""
        ...

    async def until_leading(self) -> None:
        """Return when it leads."""
        ...


WELL = frozenset({"ok", "standby"})
"""The states of a service that goes well."""


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
    def state(self) -> str:
        """Return how it does, in a word or its last error."""
        if self.is_standby:
            return "standby"
        return "ok" if not self.failures and self.last_good_at is not None else self.error or "starting"


class Service(ABC):
    """Something to be done again and again, with a time between turns; woken early by `wake`."""

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
        """Begin anew: this server leads from now on, and another one did until now."""

    @abstractmethod
    async def turn(self) -> float:
        """Do it once, and return after how many seconds at the latest it wants to be called again."""

    async def wait(self, seconds: float) -> None:
        """Wait so long, or until woken."""
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
        # Also when it is time already this lets everything else go on: neither a wait that a wake-up has ended nor a
        # turn that fails at once gives way by itself, and what would mend the failure may wait for its turn.
        await asyncio.sleep(next_at - loop.time())
        next_at = loop.time() + service.least_turn
        try:
            pause = await service.turn()
        except Exception as error:  # noqa: BLE001 - logged, and told by its health
            await asyncio.sleep(_failed(health, error))
        else:
            _went_well(health, clock)
            await service.wait(pause)


def _failed(health: Health, error: Exception) -> float:
    """Note a failure, and return after how many seconds the next try may be."""
    health.failures += 1
    said, kind = str(error), type(error).__name__
    # Who has no token is told it too, and what nobody foresaw may say anything, as a database which values it refuses.
    health.error = said if isinstance(error, TreadleError) else f"{kind}: the server's log has the traceback"
    is_outage = isinstance(error, StoreUnavailable)
    # Without its count, so that equal failures are equal lines of the log, which are folded.
    if is_outage:
        log.warning("service %s failed, and is tried again: %s", health.name, said)
    else:
        log.error("service %s failed, and is tried again: %s", health.name, said or kind, exc_info=error)
    longest = LONGEST_OUTAGE_BACKOFF if is_outage else LONGEST_BACKOFF
    return min(longest, 2.0 ** min(health.failures, 7) / 4) * (0.5 + random.random())


def _went_well(health: Health, clock: Clock) -> None:
    if health.failures:
        log.info("service %s goes on after %s", health.name, counted(health.failures, "failure"))
    health.last_good_at = clock.now()
    health.failures = 0
    health.error = None

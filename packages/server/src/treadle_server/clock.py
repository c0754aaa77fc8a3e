"""The server's clock; tests have one of their own."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of the time of day, and of monotonic time."""

    def now(self) -> datetime:
        """Return the current instant in UTC."""
        ...

    def monotonic(self) -> float:
        """Return monotonic seconds from an arbitrary start."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the current instant in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return monotonic seconds from an arbitrary start."""
        return time.monotonic()


class Drift:
    """Measures by how much the time of day drifts from monotonic time: that shows a clock that was set, either way."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._least, self._most = float("inf"), float("-inf")

    def look(self, now: datetime) -> None:
        """Note the clock's time at this moment."""
        apart = now.timestamp() - self._monotonic()
        self._least, self._most = min(self._least, apart), max(self._most, apart)

    def take(self, now: datetime) -> float:
        """Return by how many seconds the clock was set, at most, since the last call; 0 at the first call."""
        self.look(now)
        found = self._most - self._least
        self._least, self._most = float("inf"), float("-inf")
        self.look(now)
        return found

"""Where the server takes its time from; tests bring a clock of their own."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time of day, and a time that never jumps."""

    def now(self) -> datetime:
        """Return the current instant in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start that only grow."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the current instant in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start that only grow."""
        return time.monotonic()


class Drift:
    """How far the time of day parted from the time that passes, there and back: a clock that was set shows by it."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._least, self._most = float("inf"), float("-inf")

    def look(self, now: datetime) -> None:
        """Note what the clock shows at this moment."""
        apart = now.timestamp() - self._monotonic()
        self._least, self._most = min(self._least, apart), max(self._most, apart)

    def take(self, now: datetime) -> float:
        """Return by how many seconds it was set at most since this was asked before; 0 when it is asked first."""
        self.look(now)
        found = self._most - self._least
        self._least, self._most = float("inf"), float("-inf")
        self.look(now)
        return found

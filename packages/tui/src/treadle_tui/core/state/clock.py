"""The time that the dashboard shows: the local clock, corrected by the server's."""

from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Protocol

from treadle.wire.fields import EARLIEST, LATEST


class Clock(Protocol):
    """A wall clock and a monotonic clock."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""

    def steady(self) -> float:
        """Return monotonic seconds."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""
        return datetime.now(UTC)

    def steady(self) -> float:
        """Return monotonic seconds."""
        return monotonic()


class ServerTime:
    """The server's time, estimated from its answers; the ages of its timestamps are measured by it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = timedelta()

    def correct(self, server: datetime, *, round_trip: float = 0.0) -> None:
        """Correct the estimate by the time in an answer, with its round trip in seconds.

        Small differences are ignored: they come from the network, and ages must not jitter. Raises `ValueError` for a
        time at an end of the years, from where nothing can be counted on.
        """
        if not EARLIEST <= server < LATEST:
            raise ValueError(f"time: {server.isoformat()} is no server's time")
        ahead = server + timedelta(seconds=round_trip / 2) - self._clock.now()
        if abs(ahead - self._ahead) > timedelta(seconds=0.5):
            self._ahead = ahead

    def now(self) -> datetime:
        """Return the server's time."""
        return self._clock.now() + self._ahead

"""Time as the dashboard tells it: the local clock, corrected by the server's."""

from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Protocol


class Clock(Protocol):
    """A wall clock and a steady one."""

    def now(self) -> datetime:
        """Return the instant, aware, in UTC."""

    def steady(self) -> float:
        """Return seconds that never run backwards."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the instant, aware, in UTC."""
        return datetime.now(UTC)

    def steady(self) -> float:
        """Return seconds that never run backwards."""
        return monotonic()


class ServerTime:
    """The server's time, estimated from its answers; ages of what the server stamped are told by it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = timedelta()

    def correct(self, server: datetime, *, round_trip: float = 0.0) -> None:
        """Take the time of an answer that travelled `round_trip` seconds there and back.

        Small differences are left alone: they are the journey's, and ages must not jitter.
        """
        ahead = server + timedelta(seconds=round_trip / 2) - self._clock.now()
        if abs(ahead - self._ahead) > timedelta(seconds=0.5):
            self._ahead = ahead

    def now(self) -> datetime:
        """Return the server's time."""
        return self._clock.now() + self._ahead

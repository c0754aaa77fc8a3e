"""PostgreSQL's clock, shared by all its servers; between readings it is extrapolated by this machine's monotonic clock.

No server's own time of day decides anything: two servers whose clocks differ by a minute agree on when a lease ends.
Reading the clock in each transaction would cost a round trip (0.09 ms of a lone submit's 2 ms); instead each
transaction sends a check along with its BEGIN that the database's clock shows what this server believes. When it does
not (the clock was set, another primary took over, this process was suspended), the transaction is begun again after
another reading.

With other servers on the database, a transaction that began before the clock was set is not committed after it: the
leader may have renewed all leases meanwhile, and would miss one that is added later with the old time. With that check
the round trip of a COMMIT takes 83 microseconds, and 61 without (over a Unix socket, 3,000 each in turn).
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from treadle_server.clock import Clock, SystemClock
from treadle_server.domain.limits import APART

if TYPE_CHECKING:
    import asyncpg

WITHIN = 0.25
"""Seconds by which the believed time may differ from the database's, in addition to the round trip."""

READINGS = 3
"""How often the clock is read when answers are slow, which makes a reading less exact."""


class DatabaseClock:
    """The database's clock as this server believes it to be; unknown before the first `read`."""

    def __init__(self, machine: Clock | None = None) -> None:
        self._machine = machine or SystemClock()
        self.monotonic = self._machine.monotonic
        """Returns this machine's monotonic seconds, from an arbitrary start."""
        self._shown: datetime | None = None
        self._at = 0.0
        self._way = 0.0

    def now(self) -> datetime:
        """Return the database's time in UTC; before the first `read`, this machine's."""
        if self._shown is None:
            return self._machine.now()
        return self._shown + timedelta(seconds=self.monotonic() - self._at)

    @property
    def apart(self) -> float:
        """Return the seconds from this machine's monotonic clock to the database's believed time."""
        return self.now().timestamp() - self.monotonic()

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        """Return the instants between which this server believes the database's clock to be."""
        now, apart = self.now(), timedelta(seconds=WITHIN + self._way)
        return now - apart, now + apart

    @property
    def check(self) -> str:
        """Return SQL that fails with a division by zero unless the database's clock is within `bounds`."""
        return _between(*self.bounds)

    def unless_set(self) -> Callable[[], str]:
        """Return a function that makes SQL which fails, dividing by zero, if the clock has been set since this call."""
        now, at = self.now(), self.monotonic()

        def check() -> str:
            shown = now + timedelta(seconds=self.monotonic() - at)
            return _between(shown - timedelta(seconds=APART), shown + timedelta(seconds=APART))

        return check

    async def read(self, driver: "asyncpg.Connection[Any]") -> None:
        """Read the database's clock, assuming that it answered halfway through the round trip."""
        best = float("inf")
        for _ in range(READINGS):
            sent = self.monotonic()
            shown: datetime = await driver.fetchval("SELECT clock_timestamp()")
            way = self.monotonic() - sent
            if way < best:
                best, self._shown, self._at, self._way = way, shown, sent + way / 2, way
            if best <= WITHIN:
                return


def _between(first: datetime, last: datetime) -> str:
    # clock_timestamp() is volatile: it is evaluated when the statement runs. The literals are the program's own.
    return f"SELECT 1 / (clock_timestamp() BETWEEN '{first}' AND '{last}')::int;"

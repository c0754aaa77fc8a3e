"""PostgreSQL's clock, which is the one of all its servers: told between two readings by this machine's monotonic one.

No server's time of day decides anything there: two whose clocks differ by a minute agree on when a lease ends. To ask
in each transaction would cost a way there and back (0.09 ms of a lone submit's 2 ms); instead each begins with a check,
sent along with its BEGIN, that what this server believes is what the database's clock shows. Where that is not so (it
was set, another primary took over, this process stood still) the transaction is begun anew after another reading.

One that began before the clock was set is not committed after it: with other servers there the leader may have stamped
all leases anew meanwhile, and knows nothing of one that came later by a time of before. With that check the way there
and back of its COMMIT takes 83 microseconds, and 61 without (over a Unix socket, 3,000 each in turn).
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from treadle_server.clock import Clock, SystemClock
from treadle_server.domain.limits import APART

if TYPE_CHECKING:
    import asyncpg

WITHIN = 0.25
"""Seconds by which what is believed may differ from what the database shows, beside the way there."""

READINGS = 3
"""How often the clock is read when the answer takes long, which makes a reading that much less exact."""


class DatabaseClock:
    """The database's clock as this server believes it to be; nothing is known before the first `read`."""

    def __init__(self, machine: Clock | None = None) -> None:
        self._machine = machine or SystemClock()
        self.monotonic = self._machine.monotonic
        """Returns seconds from an arbitrary start that only grow: this machine's."""
        self._shown: datetime | None = None
        self._at = 0.0
        self._way = 0.0

    def now(self) -> datetime:
        """Return the database's time in UTC; before it was read for the first time, this machine's."""
        if self._shown is None:
            return self._machine.now()
        return self._shown + timedelta(seconds=self.monotonic() - self._at)

    @property
    def apart(self) -> float:
        """Return by how many seconds the database's clock is ahead of this machine's monotonic one, as is believed."""
        return self.now().timestamp() - self.monotonic()

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        """Return between which instants the database's clock is now, as this server believes."""
        now, apart = self.now(), timedelta(seconds=WITHIN + self._way)
        return now - apart, now + apart

    @property
    def check(self) -> str:
        """Return SQL that fails with a division by zero unless the database shows what is believed."""
        return _between(*self.bounds)

    def unless_set(self) -> Callable[[], str]:
        """Return what gives SQL that fails with a division by zero once the database's clock was set since now."""
        now, at = self.now(), self.monotonic()

        def check() -> str:
            shown = now + timedelta(seconds=self.monotonic() - at)
            return _between(shown - timedelta(seconds=APART), shown + timedelta(seconds=APART))

        return check

    async def read(self, driver: "asyncpg.Connection[Any]") -> None:
        """Ask the database, and believe that it answered in the middle of the way there and back."""
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
    # A clock is volatile: it is asked when the statement runs. The literals are the program's own.
    return f"SELECT 1 / (clock_timestamp() BETWEEN '{first}' AND '{last}')::int;"

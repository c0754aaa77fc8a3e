"""The server's time, as its last answer told it: ages are told by it, whatever this machine's clock shows."""

from datetime import UTC, datetime, timedelta

ALIKE = timedelta(seconds=2)
"""How far a server's clock may seem ahead and agree: it and this machine's are asked at two moments."""

OLDEST = timedelta(seconds=5)
"""How old an answer's date may be: it has whole seconds, and servers write it once a second, later when they are busy.

Clocks that seem to differ by no more agree. Of others the latest time is taken that it can be, so that nothing that has
happened is told as what is to come.
"""


def machine_time() -> datetime:
    """Return what this machine's clock shows."""
    return datetime.now(UTC)


class ServerTime:
    """This machine's clock, corrected by the server's."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def correct(self, date: str | None) -> None:
        """Take the `Date` of an answer that has just come, if it has one that can be read."""
        from email.utils import parsedate_to_datetime

        try:
            ahead = parsedate_to_datetime(date or "") - machine_time()
        except (TypeError, ValueError):
            return
        self._ahead = timedelta() if -OLDEST <= ahead <= ALIKE else ahead + OLDEST

    def now(self) -> datetime:
        """Return the server's time."""
        return machine_time() + self._ahead


server_time = ServerTime()
"""The command's; it asks one server, or several whose clocks agree."""

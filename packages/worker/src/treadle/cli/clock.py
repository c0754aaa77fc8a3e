"""The server's time, from its last answer: ages are counted by it, whatever this machine's clock shows."""

from datetime import MAXYEAR, UTC, datetime, timedelta

ALIKE = timedelta(seconds=2)
"""How far ahead a server's clock may seem and still agree: it and this machine's are read at two moments."""

OLDEST = timedelta(seconds=5)
"""How old an answer's date may be: it has whole seconds, and servers update it once a second, later when busy.

Clocks that seem to differ by no more agree. For others the latest possible time is used, so that nothing that has
happened appears to be in the future.
"""


def machine_time() -> datetime:
    """Return the time of this machine's clock."""
    return datetime.now(UTC)


class ServerTime:
    """This machine's clock, corrected by the server's."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def correct(self, date: str | None) -> None:
        """Apply the `Date` header of an answer that has just come, if it is there and valid."""
        from email.utils import parsedate_to_datetime

        try:
            told = parsedate_to_datetime(date or "")
            ahead = told - machine_time()
        except (TypeError, ValueError, OverflowError):
            return
        if told.year >= MAXYEAR:
            return  # it would soon be a time that Python does not have
        self._ahead = timedelta() if -OLDEST <= ahead <= ALIKE else ahead + OLDEST

    def now(self) -> datetime:
        """Return the server's time."""
        return machine_time() + self._ahead


server_time = ServerTime()
"""The command's server time; a command asks one server, or several whose clocks agree."""

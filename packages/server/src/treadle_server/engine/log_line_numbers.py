"""The numbers of log lines."""

from datetime import datetime


class LogLineNumbers:
    """Numbers of log lines. They ascend: with the clock, and by one where it stands still or goes back."""

    def __init__(self) -> None:
        self._last = 0

    def begin(self, now: datetime) -> None:
        """Let what follows be later than what other servers gave before this instant."""
        self._last = max(self._last, int(now.timestamp() * 1e6))

    def next(self) -> int:
        """Return the next one."""
        self._last += 1
        return self._last

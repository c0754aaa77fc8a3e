"""Retries: the pauses between attempts, and a log that says what is waited for only once, not at each attempt."""

import logging
import random
from collections.abc import Iterator

from treadle.clock import monotonic
from treadle.errors import ConnectionLost

_LONGEST_DELAY = 5.0

LEAST_HELD = 2.0
"""If a request breaks after at least so many seconds, it was cut off for being held; if sooner, for another reason."""

REMINDER = 60.0
"""Seconds after which the log repeats what is still waited for."""

_MOST_SENTENCES = 100
"""The most sentences of one wait that are remembered."""


_SAFE = frozenset({"GET", "PUT", "DELETE"})


class HoldCut(ConnectionLost):
    """A request broke while the server may have held it: something between allows only shorter waits."""

    def __init__(self, message: str, after: float) -> None:
        super().__init__(message)
        self.shorter: int = max(int(LEAST_HELD), int(after * 0.8))
        """Seconds for which the next request may be held."""


def may_be_resent(method: str, resend: bool | None = None) -> bool:  # noqa: FBT001 - passed through from callers
    """Return whether a request is safe to repeat: as `resend` says, or else by its method."""
    return method in _SAFE if resend is None else resend


def delays() -> Iterator[float]:
    """Yield seconds between attempts, doubling from 0.1 to 5, each drawn from its upper half to spread out clients."""
    delay = 0.1
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(delay * 2, _LONGEST_DELAY)


class QuietLog:
    """Logs what is waited for: each sentence at once, and again after a minute, rather than at each attempt."""

    def __init__(self, log: logging.Logger, *, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        self._said: dict[str, float] = {}

    def say(self, sentence: object, then: str) -> None:
        """Log the sentence and what is done about it, unless it was logged within the last minute."""
        text, now = str(sentence), monotonic()
        last = self._said.get(text)
        if last is not None and now - last < REMINDER:
            return
        if len(self._said) >= _MOST_SENTENCES:
            self._said.clear()
        self._said[text] = now
        self._log.log(self._level, "%s; %s", text, then if last is None else f"still {then}")

    def over(self) -> None:
        """Forget the sentences, because the wait is over."""
        self._said.clear()

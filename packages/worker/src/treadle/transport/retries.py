"""Trying again: the pauses between attempts, and a log that says what is waited for once and not at each try."""

import logging
import random
from collections.abc import Iterator

from treadle.clock import monotonic
from treadle.errors import ConnectionLost

_LONGEST_DELAY = 5.0

LEAST_HELD = 2.0
"""Seconds after which a request that breaks was cut off because the server held it; sooner it has another cause."""

REMINDER = 60.0
"""Seconds after which what is still waited for is said once more."""

_MOST_SENTENCES = 100
"""Sentences of one wait that are remembered at most."""


_SAFE = frozenset({"GET", "PUT", "DELETE"})


class HoldCut(ConnectionLost):
    """A request broke in the midst of the time for which the server may hold it: what is between allows for less."""

    def __init__(self, message: str, after: float) -> None:
        super().__init__(message)
        self.shorter: int = max(int(LEAST_HELD), int(after * 0.8))
        """Seconds for which the next one may be held."""


def may_be_resent(method: str, resend: bool | None = None) -> bool:  # noqa: FBT001 - handed on
    """Return whether a request does no harm twice: as is said of it, or else by its method."""
    return method in _SAFE if resend is None else resend


def delays() -> Iterator[float]:
    """Seconds between attempts: doubling from 0.1 to 5, each drawn from its upper half, so that crowds spread out."""
    delay = 0.1
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(delay * 2, _LONGEST_DELAY)


class QuietLog:
    """Says what is waited for: each sentence at once, and again after a minute, not at each try."""

    def __init__(self, log: logging.Logger, *, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        self._said: dict[str, float] = {}

    def say(self, sentence: object, then: str) -> None:
        """Log the sentence, and what is done about it, unless it was logged within the last minute."""
        text, now = str(sentence), monotonic()
        last = self._said.get(text)
        if last is not None and now - last < REMINDER:
            return
        if len(self._said) >= _MOST_SENTENCES:
            self._said.clear()
        self._said[text] = now
        self._log.log(self._level, "%s; %s", text, then if last is None else f"still {then}")

    def over(self) -> None:
        """Forget the sentences: what was waited for is there."""
        self._said.clear()

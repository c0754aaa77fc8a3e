"""Bounds concurrent attempts, so that slow or dead receivers do not delay the others.

An attempt at such a receiver lasts until its timeout, and a few of them would take all the room for that long. So
webhooks whose receivers do not answer soon share a room of their own.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from treadle_server.store.transaction.webhooks import Claimed

AT_ONCE = 32
"""Tries at once of all webhooks whose receivers answer soon, and as many of all others."""

AT_ONCE_EACH = 8
"""Tries at once for one webhook."""

MOST = 128
"""Tries at once in all: that a receiver answers no more is known only when it has not answered soon."""

SOON = 1.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A try that is under way."""

    claimed: Claimed
    since: float
    """By the monotonic clock."""


class Room:
    """What is left beside tries that are under way."""

    def __init__(self, flying: Collection[Flight], slow: Collection[str], now: float) -> None:
        """Count the tries; `slow` are webhooks whose last try was not answered soon, and `now` is monotonic."""
        late = {flight.claimed.webhook_id for flight in flying if now - flight.since >= SOON}
        self._slow = {*slow, *late}
        self._of_each = Counter(flight.claimed.webhook_id for flight in flying)
        self._of_kind = Counter(flight.claimed.webhook_id in self._slow for flight in flying)

    def of(self, webhook_id: str) -> int:
        """Return how many tries of a webhook may begin."""
        of_kind = self._of_kind[webhook_id in self._slow]
        left = min(AT_ONCE_EACH - self._of_each[webhook_id], AT_ONCE - of_kind, MOST - self._of_kind.total())
        return max(0, left)

    def take(self, webhook_id: str, tries: int) -> None:
        """Count tries that begin."""
        self._of_each[webhook_id] += tries
        self._of_kind[webhook_id in self._slow] += tries

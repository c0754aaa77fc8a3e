"""Bounds concurrent attempts, so that slow or dead receivers do not delay the others.

An attempt at such a receiver lasts until its timeout, and a few of them would take all the room for that long. So
webhooks whose receivers do not answer soon share a room of their own.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from treadle_server.store.transaction.webhooks import Claimed

AT_ONCE = 32
"""Most concurrent attempts for all webhooks whose receivers answer soon, and as many for all others."""

AT_ONCE_EACH = 8
"""Most concurrent attempts for one webhook."""

MOST = 128
"""Most concurrent attempts in all. That a receiver has become slow is known only once it has not answered soon."""

SOON = 1.0
"""Seconds within which a receiver's answer counts as soon."""


@dataclass(frozen=True, slots=True)
class Flight:
    """An attempt in progress."""

    claimed: Claimed
    since: float
    """When it began, by the monotonic clock."""


class Room:
    """The room that is left by attempts in progress."""

    def __init__(self, flying: Collection[Flight], slow: Collection[str], now: float) -> None:
        """Count the attempts; `slow` are webhooks whose last attempt was not answered soon, and `now` is monotonic."""
        late = {flight.claimed.webhook_id for flight in flying if now - flight.since >= SOON}
        self._slow = {*slow, *late}
        self._of_each = Counter(flight.claimed.webhook_id for flight in flying)
        self._of_kind = Counter(flight.claimed.webhook_id in self._slow for flight in flying)

    def of(self, webhook_id: str) -> int:
        """Return how many attempts for a webhook may begin."""
        of_kind = self._of_kind[webhook_id in self._slow]
        left = min(AT_ONCE_EACH - self._of_each[webhook_id], AT_ONCE - of_kind, MOST - self._of_kind.total())
        return max(0, left)

    def take(self, webhook_id: str, tries: int) -> None:
        """Count attempts that begin."""
        self._of_each[webhook_id] += tries
        self._of_kind[webhook_id in self._slow] += tries

"""Bounds concurrent attempts, so that slow or dead receivers do not delay the others.

An attempt at such a receiver lasts until its timeout, and a few of them would take all the room for that long. So
webhooks whose receivers do not answer soon share a room of their own, and so do those of which nothing is known yet:
beside a hundred receivers that hung, one that answered at once got 8 of 3,200 deliveries in a minute and a half.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from treadle_server.store.transaction.webhooks import Claimed

AT_ONCE = 32
"""Most concurrent attempts for all webhooks of one kind: those whose receivers answer soon, those whose receivers do
not, and those that were not tried yet."""

AT_ONCE_EACH = 8
"""Most concurrent attempts for one webhook."""

MOST = 128
"""Most concurrent attempts in all. That a receiver has become slow is known only once it has not answered soon.

`AT_ONCE` of them are kept for receivers that answered soon.
"""

SOON = 1.0
"""Seconds within which a receiver's answer counts as soon."""

Kind = Literal["quick", "slow", "new"]


@dataclass(frozen=True, slots=True)
class Flight:
    """An attempt in progress."""

    claimed: Claimed
    since: float
    """When it began, by the monotonic clock."""


class Room:
    """The room that is left by attempts in progress."""

    def __init__(
        self,
        flying: Collection[Flight],
        now: float,
        *,
        slow: Collection[str],
        quick: Collection[str],
        due: Collection[str],
    ) -> None:
        """Count the attempts.

        Of `slow` webhooks the last attempt was not answered soon, of `quick` ones it was, and of others nothing is
        known. `now` is monotonic. Those that have `due` deliveries share what their kind has room for.
        """
        late = {flight.claimed.webhook_id for flight in flying if now - flight.since >= SOON}
        self._slow = {*slow, *late}
        self._quick = quick
        self._of_each = Counter(flight.claimed.webhook_id for flight in flying)
        self._of_kind = Counter(self._kind(flight.claimed.webhook_id) for flight in flying)
        self._due = Counter(self._kind(webhook_id) for webhook_id in due)

    def of(self, webhook_id: str) -> int:
        """Return how many attempts for a webhook may begin."""
        kind = self._kind(webhook_id)
        each = min(AT_ONCE_EACH, -(-AT_ONCE // max(1, self._due[kind])))
        most = MOST if kind == "quick" else MOST - AT_ONCE
        left = (each - self._of_each[webhook_id], AT_ONCE - self._of_kind[kind], most - self._of_kind.total())
        return max(0, min(left))

    def take(self, webhook_id: str, tries: int) -> None:
        """Count attempts that begin."""
        self._of_each[webhook_id] += tries
        self._of_kind[self._kind(webhook_id)] += tries

    def _kind(self, webhook_id: str) -> Kind:
        return "slow" if webhook_id in self._slow else "quick" if webhook_id in self._quick else "new"

"""When the rate of a limit lets a task start that waits for it: after those that go before it have had their tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

WaitingCounts = Mapping[tuple[int, int], int]
"""How many tasks wait for a bucket, by their lane and priority."""


class WaitingPosition(NamedTuple):
    """Where a task stands that waits for a bucket."""

    lane: int
    priority: int
    nth: int
    """1-based, among those of its lane that wait for the bucket."""


@dataclass(frozen=True, slots=True)
class Fill:
    """How a bucket fills: the tokens that it had at an instant, and how many a second come since."""

    tokens: float
    filled_at: datetime
    per_second: float
    is_waited_for: bool
    """Whether it has no token for the first that waits for one: it is the rate that keeps them."""

    def reaches(self, tokens: int) -> datetime | None:
        """Return when so many tokens will have come, if none is taken; None when that is past all calendars."""
        seconds = max(0.0, tokens - self.tokens) / self.per_second
        try:
            return self.filled_at + timedelta(microseconds=ceil(seconds * 1e6 - 1e-3))
        except OverflowError:
            return None


def tokens_until(stand: WaitingPosition, crowd: WaitingCounts, most: int) -> int | None:
    """Return how many tokens of a bucket are taken until a task has its own; None when too many wait to tell.

    Of each line no more than `most` were counted. In a lane the order is strict; between lanes a higher priority goes
    first, and tasks of one priority take turns.
    """
    lane, priority, nth = stand
    turn = nth - sum(count for (other, above), count in crowd.items() if other == lane and above > priority)
    others = [(above, count) for (other, above), count in crowd.items() if other != lane]
    higher = sum(count for above, count in others if above > priority)
    if nth > most or higher >= most:
        return None
    return nth + higher + sum(min(turn, count) for equal, count in others if equal == priority)

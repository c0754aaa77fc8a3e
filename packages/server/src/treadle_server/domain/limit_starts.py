"""Estimates when the rate of a limit lets a waiting task start: after the tasks ahead of it have had their tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

WaitingCounts = Mapping[tuple[int, int], int]
"""How many tasks wait for a bucket, by lane and priority."""


class WaitingPosition(NamedTuple):
    """The position of a task that waits for a bucket."""

    lane: int
    priority: int
    nth: int
    """Its 1-based position among the tasks of its lane that wait for the bucket."""


@dataclass(frozen=True, slots=True)
class Fill:
    """How a bucket fills: its tokens at an instant, and how many are added per second since."""

    tokens: float
    filled_at: datetime
    per_second: float
    is_waited_for: bool
    """Whether it has no token for the first task that waits for one, so that the rate is what holds the tasks up."""

    def reaches(self, tokens: int) -> datetime | None:
        """Return when it will have so many tokens if none is taken; None if that is beyond the range of dates."""
        seconds = max(0.0, tokens - self.tokens) / self.per_second
        try:
            return self.filled_at + timedelta(microseconds=ceil(seconds * 1e6 - 1e-3))
        except OverflowError:
            return None


def tokens_until(stand: WaitingPosition, crowd: WaitingCounts, most: int) -> int | None:
    """Return how many tokens of a bucket are taken until a task has its own; None if too many tasks wait to tell.

    At most `most` tasks were counted in each line. The order within a lane is strict; between lanes a higher priority
    goes first, and tasks of the same priority take turns.
    """
    lane, priority, nth = stand
    turn = nth - sum(count for (other, above), count in crowd.items() if other == lane and above > priority)
    others = [(above, count) for (other, above), count in crowd.items() if other != lane]
    higher = sum(count for above, count in others if above > priority)
    if nth > most or higher >= most:
        return None
    return nth + higher + sum(min(turn, count) for equal, count in others if equal == priority)

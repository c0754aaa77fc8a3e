"""Values counted in buckets with fixed upper bounds, while the process lives: what a histogram of Prometheus is."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

WAITS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200, 43_200)
"""Seconds that tasks wait and run: milliseconds to half a day."""

COMMITS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Seconds of one transaction."""

ROWS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
"""Transitions of one transaction."""


class Distribution:
    """How many values were not above each bound, and their sum. One is counted in 0.7 microseconds."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, n: int = 1) -> None:
        """Count a value, `n` times; one below 0, by a clock that was set back, counts as 0: sums never shrink."""
        value = max(value, 0.0)
        self._counts[bisect_left(self._bounds, value)] += n
        self.total += value * n

    @property
    def count(self) -> int:
        """Return how many values were counted."""
        return sum(self._counts)

    def copy(self) -> "Distribution":
        """Return one that stays as this is now."""
        made = Distribution(self._bounds)
        made.merge(self)
        return made

    def merge(self, other: "Distribution") -> None:
        """Count what the other one, of the same bounds, has counted."""
        self._counts = [mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)]  # noqa: SLF001 - its own kind
        self.total += other.total

    def buckets(self) -> list[tuple[str, float]]:
        """Return each bound, the last one `+Inf`, with how many values were not above it."""
        bounds = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        return list(zip(bounds, accumulate(self._counts), strict=True))

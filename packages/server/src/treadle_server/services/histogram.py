"""Histograms of durations, in buckets that grow by a tenth each: percentiles of any number of them in little memory.

A bucket is reported as its geometric mean, so a percentile is within 4.9 % (the square root of 1.1) of the duration
that has its rank; below a millisecond within a millisecond. Nothing is kept of the durations themselves.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from math import ceil, log

SMALLEST = 0.001
"""Seconds; shorter durations fall into the first bucket."""

GROWTH = 1.1
BUCKETS = 260
"""The last bucket begins at about 1.5 years, and has all longer durations."""

_SCALE = 1 / log(GROWTH)


def bucket_of(seconds: float) -> int:
    """Return the number of the bucket of a duration."""
    return 0 if seconds <= SMALLEST else min(int(log(seconds / SMALLEST) * _SCALE) + 1, BUCKETS - 1)


def middle_of(bucket: int) -> float:
    """Return the seconds for which a bucket stands."""
    return 0.0 if bucket == 0 else SMALLEST * GROWTH ** (bucket - 0.5)


class Histogram:
    """Durations of the last slices of time; the newest slice is the last. A slice has at most `BUCKETS` numbers."""

    __slots__ = ("_slices",)

    def __init__(self, slices: int) -> None:
        self._slices: deque[Counter[int]] = deque((Counter() for _ in range(slices)), slices)

    def add(self, seconds: float, n: int = 1) -> None:
        """Count a duration in seconds, `n` times, in the newest slice."""
        self._slices[-1][bucket_of(seconds)] += n

    def roll(self, slices: int) -> None:
        """Begin new slices; as many of the oldest are forgotten."""
        self._slices.extend(Counter() for _ in range(min(slices, len(self._slices))))

    def __bool__(self) -> bool:
        return any(self._slices)

    def plus(self, other: "Histogram") -> "Histogram":
        """Return a histogram with the durations of both, which must have the same number of slices."""
        both = Histogram(0)
        both._slices = deque(_sum(slices) for slices in zip(self._slices, other._slices, strict=True))  # noqa: SLF001 - its own kind
        return both

    def mean(self) -> float | None:
        """Return the mean of the durations; None without any."""
        counts = _sum(self._slices)
        total = counts.total()
        return sum(middle_of(bucket) * n for bucket, n in counts.items()) / total if total else None

    def percentiles(self, shares: Sequence[float]) -> tuple[int, list[float | None]]:
        """Return the number of durations, and for each share the percentile by nearest rank.

        The shares ascend. Without any duration they are None.
        """
        counts = _sum(self._slices)
        total = counts.total()
        if not total:
            return 0, [None] * len(shares)
        found: list[float | None] = []
        passed, buckets = 0, iter(sorted(counts))
        bucket = -1
        for share in shares:
            while passed < ceil(share * total):
                bucket = next(buckets)
                passed += counts[bucket]
            found.append(middle_of(bucket))
        return total, found


def _sum(counted: Iterable[Counter[int]]) -> Counter[int]:
    """Return how many durations there are in each bucket."""
    return sum(counted, start=Counter())

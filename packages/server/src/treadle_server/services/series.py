"""Counts by key in equal steps of time, of which the last few are kept."""

from collections import deque


class Series:
    """Counts in steps; a key without counts in any step takes no memory."""

    def __init__(self, step_seconds: int, steps: int, began: float) -> None:
        """`began` is the first reading of the monotonic clock."""
        self.step_seconds = step_seconds
        self.steps = steps
        self._step = int(began // step_seconds)
        self._counts: dict[int, deque[int]] = {}
        self._nothing = (0,) * steps

    def add(self, key: int, n: int = 1) -> None:
        """Add `n` to the key's count in the current step."""
        if (counts := self._counts.get(key)) is None:
            counts = self._counts[key] = deque(self._nothing, self.steps)
        counts[-1] += n

    def add_past(self, key: int, ago: int) -> None:
        """Count one in the step `ago` steps before the current one, if that is still kept."""
        if ago < self.steps:
            self._counts.setdefault(key, deque(self._nothing, self.steps))[-1 - max(0, ago)] += 1

    def newest(self) -> dict[int, int]:
        """Return the counts of the current step by key, without zeros."""
        return {key: n for key, counts in self._counts.items() if (n := counts[-1])}

    def roll(self, now: float) -> bool:
        """Advance to the step of `now`; return whether any counts moved."""
        steps = int(now // self.step_seconds) - self._step
        self._step += steps
        if steps <= 0 or not self._counts:
            return False
        for key, counts in list(self._counts.items()):
            counts.extend([0] * min(steps, self.steps))
            if not any(counts):
                del self._counts[key]
        return True

    def of(self, key: int) -> list[int]:
        """Return the counts of a key, oldest first; the last step has not ended."""
        return list(self._counts.get(key, self._nothing))

    def total(self, key: int) -> int:
        """Return the sum over all steps."""
        return sum(self._counts.get(key, ()))

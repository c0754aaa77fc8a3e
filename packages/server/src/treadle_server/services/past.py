"""What queues completed and failed over an hour, in minutes, and over a day, in half-hours; kept in memory.

It is told of steps of ten seconds when they end, so that it costs a commit nothing: the present step is not in it yet.
"""

from collections.abc import Mapping
from typing import Any

from treadle_server.services.series import Series

SPANS = ((60, 60), (1800, 48))
"""The seconds of a step, and how many are kept."""


class Past:
    """Counts by job in each of the spans."""

    def __init__(self, began: float) -> None:
        """`began` is when the steady clock was read first."""
        self._spans = [_Span(began, seconds, steps) for seconds, steps in SPANS]

    def take(self, now: float, completed: Mapping[int, int], failed: Mapping[int, int]) -> bool:
        """Add what a short step that has ended counted, by job; return whether a longer one has gone on by it."""
        moved = [span.take(now, completed, failed) for span in self._spans]
        return any(moved)

    def of(self, job_num: int) -> list[dict[str, Any]]:
        """Return each span as `QueueHistory`; none of a job of which nothing is known."""
        return [told for span in self._spans if (told := span.of(job_num)) is not None]


class _Span:
    def __init__(self, began: float, seconds: int, steps: int) -> None:
        self._seconds = seconds
        self._step = int(began // seconds)
        self._completed = Series[int](seconds, steps)
        self._failed = Series[int](seconds, steps)

    def take(self, now: float, completed: Mapping[int, int], failed: Mapping[int, int]) -> bool:
        # Before the steps go on: what has ended belongs to the one that was.
        for series, counted in ((self._completed, completed), (self._failed, failed)):
            for job_num, n in counted.items():
                series.add(job_num, n)
        passed = int(now // self._seconds) - self._step
        self._step += passed
        moved = [series.roll(passed) for series in (self._completed, self._failed)]
        return any(moved)

    def of(self, job_num: int) -> dict[str, Any] | None:
        completed, failed = self._completed.of(job_num), self._failed.of(job_num)
        if not any(completed) and not any(failed):
            return None
        return {"step_seconds": self._seconds, "completed": completed, "failed": failed}

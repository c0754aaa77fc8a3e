"""Completed and failed tasks by queue, over an hour in minutes and over a day in half-hours; kept in memory.

It receives each step of ten seconds when it ends, so it costs a commit nothing; the current step is not included yet.
"""

from collections.abc import Mapping
from typing import Any

from treadle_server.services.series import Series

SPANS = ((60, 60), (1800, 48))
"""The seconds of a step, and how many are kept."""


class Past:
    """Counts by job in each of the spans."""

    def __init__(self, began: float) -> None:
        """`began` is the first reading of the monotonic clock."""
        self._spans = [(Series(*span, began), Series(*span, began)) for span in SPANS]

    def take(self, now: float, completed: Mapping[int, int], failed: Mapping[int, int]) -> bool:
        """Add the counts by job of a short step that has ended; return whether any longer steps have moved."""
        moved = []
        for span in self._spans:
            for series, counted in zip(span, (completed, failed), strict=True):
                # Added before the roll, because they belong to the step that is ending.
                for job_num, n in counted.items():
                    series.add(job_num, n)
                moved.append(series.roll(now))
        return any(moved)

    def of(self, job_num: int) -> list[dict[str, Any]]:
        """Return each span as `QueueHistory`, without spans in which nothing happened."""
        told: list[dict[str, Any]] = []
        for completed, failed in self._spans:
            done, broken = completed.of(job_num), failed.of(job_num)
            if any(done) or any(broken):
                told.append({"step_seconds": completed.step_seconds, "completed": done, "failed": broken})
        return told

"""What follows from the tables at an instant: the lines of queues and workers, and what needs attention.

It is asked for every second, however many queues and workers there are: of the queues' lines none tells the time, so
they are made anew only when something that stands in them is another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from treadle.wire.jobs import JobItem, Percentiles
from treadle_tui.core.state.attention import Alert
from treadle_tui.core.state.forecast import Forecast
from treadle_tui.core.state.queues import QueueRow, all_queues, queue_row, summed
from treadle_tui.core.state.workers import WorkerRow


@dataclass(frozen=True, slots=True)
class QueueLines:
    """The queues, and what was gathered of them once for all who ask."""

    rows: dict[str, QueueRow]
    """Each queue's line by its job's full name."""
    every: QueueRow
    """The line that stands for all of them."""
    troubled: Sequence[QueueRow]
    """Those that may need attention."""


@dataclass(frozen=True, slots=True)
class Derived:
    """All of it."""

    lines: QueueLines
    workers: dict[str, WorkerRow]
    alerts: list[Alert]
    forecasts: dict[str, Forecast | None] = field(default_factory=dict)
    """Of the queues of which somebody has asked, by their jobs."""


class QueueLinesMaker:
    """Makes the queues' lines, and keeps them as long as they are right."""

    def __init__(self) -> None:
        self._jobs: Mapping[str, JobItem] = {}
        self._counts: Mapping[str, Mapping[str, int]] = {}
        self._capacity: Mapping[str, int | None] = {}
        self._every: JobItem | None = None
        self._lines: QueueLines | None = None
        self._usual: tuple[Mapping[str, JobItem] | None, Mapping[str, Percentiles]] = (None, {})

    def usual(self, jobs: Mapping[str, JobItem]) -> Mapping[str, Percentiles]:
        """Return how long a run takes usually, by its job's full name."""
        if self._usual[0] is not jobs:
            known = {job.full_name: job.stats.completed_run for job in jobs.values() if job.stats is not None}
            self._usual = jobs, known
        return self._usual[1]

    def lines(
        self,
        jobs: Mapping[str, JobItem],
        counts: Mapping[str, Mapping[str, int]],
        workers: Mapping[str, WorkerRow],
    ) -> QueueLines:
        """Return the lines for these tables, of which each push makes new ones, and for workers as they are now."""
        capacity = {key: row.item.concurrency if row.serves else None for key, row in workers.items()}
        same_workers = capacity == self._capacity
        if self._lines is None or not (jobs is self._jobs and counts is self._counts and same_workers):
            before = self._lines.rows if self._lines is not None and same_workers else {}
            rows = {job.full_name: self._row(job, counts, workers, before) for job in jobs.values()}
            if self._every is None or jobs is not self._jobs:
                # Most of what queues tell in a second is how many tasks they have.
                self._every = summed(jobs.values())
            self._jobs, self._counts, self._capacity = jobs, counts, capacity
            serving = [each for each in capacity.values() if each is not None]
            self._lines = QueueLines(
                rows,
                all_queues(rows.values(), self._every, workers=len(serving), slots=sum(serving)),
                [row for row in rows.values() if row.state != "open" or row.failing or row.unserved],
            )
        return self._lines

    def _row(
        self,
        job: JobItem,
        counts: Mapping[str, Mapping[str, int]],
        workers: Mapping[str, WorkerRow],
        before: Mapping[str, QueueRow],
    ) -> QueueRow:
        """Return a queue's line: the one before, where neither the job nor its counts are others since."""
        name = job.full_name
        told, row = counts.get(name, job.counts), before.get(name)
        is_right = row is not None and row.job is job and self._counts.get(name, job.counts) is told
        return row if row is not None and is_right else queue_row(job, told, workers)

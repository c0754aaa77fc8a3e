"""What is derived from the tables at a moment: the rows of queues and workers, and the alerts.

It is needed every second, however many queues and workers there are. Queue rows don't depend on the time, so they are
only rebuilt when their data has changed.
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
    """The queue rows, and what is summarised from them once for all readers."""

    rows: dict[str, QueueRow]
    """Each queue's row by its job's full name."""
    every: QueueRow
    """The row that stands for all queues."""
    troubled: Sequence[QueueRow]
    """The queues that may need attention."""


@dataclass(frozen=True, slots=True)
class Derived:
    """Everything that is derived."""

    lines: QueueLines
    workers: dict[str, WorkerRow]
    alerts: list[Alert]
    forecasts: dict[str, Forecast | None] = field(default_factory=dict)
    """Forecasts by job, for the queues where one was needed."""


class QueueLinesMaker:
    """Builds the queue rows, and caches them while their data stays the same."""

    def __init__(self) -> None:
        self._jobs: Mapping[str, JobItem] = {}
        self._counts: Mapping[str, Mapping[str, int]] = {}
        self._capacity: Mapping[str, int | None] = {}
        self._every: JobItem | None = None
        self._lines: QueueLines | None = None
        self._usual: tuple[Mapping[str, JobItem] | None, Mapping[str, Percentiles]] = (None, {})

    def usual(self, jobs: Mapping[str, JobItem]) -> Mapping[str, Percentiles]:
        """Return how long a run usually takes, by its job's full name."""
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
        """Return the rows for these tables, which are new objects after each push, and for the current workers."""
        capacity = {key: row.item.concurrency if row.serves else None for key, row in workers.items()}
        same_workers = capacity == self._capacity
        if self._lines is None or not (jobs is self._jobs and counts is self._counts and same_workers):
            before = self._lines.rows if self._lines is not None and same_workers else {}
            rows = {job.full_name: self._row(job, counts, workers, before) for job in jobs.values()}
            if self._every is None or jobs is not self._jobs:
                # Sum only when jobs change: most updates in a second are of task counts.
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
        """Return a queue's row: the previous one, if neither the job nor its counts have changed."""
        name = job.full_name
        told, row = counts.get(name, job.counts), before.get(name)
        is_right = row is not None and row.job is job and self._counts.get(name, job.counts) is told
        return row if row is not None and is_right else queue_row(job, told, workers)

"""A job's queue as the dashboard shows it, built from the job, its counts and its workers."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from treadle.wire.jobs import JobItem, Percentiles, QueueHistory, QueueStats
from treadle.wire.names import INTERNAL
from treadle.wire.status import WAITING, Status
from treadle_tui.core.draw.glyphs import QueueState
from treadle_tui.core.state.charts import recent_rate, together
from treadle_tui.core.state.workers import WorkerRow

ALL_QUEUES = "*"
"""The key of the row that stands for all queues, as `job:*` does in a filter."""

FAILING_LEAST = 3
"""Fewer failures than this in the last minute are not worth an alert."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue's row."""

    job: JobItem
    state: QueueState
    pending: int
    running: int
    claimed: int
    """Tasks that workers have claimed but not started, most of which wait there for a slot."""
    slots: int
    """The capacity of the workers that serve the queue, whatever else they serve."""
    new_slots: int
    """How many of the slots to show here: those of workers that no row above has counted."""
    pool: Mapping[str, int]
    """The concurrency of each worker that serves the queue, by the worker's id."""
    unserved: Mapping[str, datetime]
    """For each pool that no worker of the queue belongs to: since when its tasks wait."""
    scheduled: int
    held: int
    """Paused tasks."""
    failed: int
    retrying: int
    """Failed tasks that wait for a retry; `scheduled` includes them."""
    workers: int
    rate: float
    """Tasks completed per second."""
    failing: str
    """How the failure rate of the last minute compares with the time before, in words; empty if it is not worse."""

    @property
    def name(self) -> str:
        """The job's full name."""
        return self.job.full_name

    def exported(self) -> dict[str, Any]:
        """Return the fields that are written to an exported file: the job with the newer counts."""
        counts = {
            name: getattr(self, name)
            for name in ("pending", "claimed", "running", "scheduled", "held", "failed", "retrying")
        }
        return {**self.job.model_dump(mode="json"), "state": self.state, "now": counts}

    @property
    def oldest_pending_at(self) -> datetime | None:
        """When the longest-waiting pending task was enqueued."""
        return self.job.oldest_pending_at if self.pending else None


def queue_row(job: JobItem, counts: Mapping[str, int], workers: Mapping[str, WorkerRow]) -> QueueRow:
    """Return the row of `job`; `counts` are newer than the job's own."""
    known = [workers[key] for key in job.workers if key in workers]
    serving = [worker for worker in known if worker.serves]
    # Until the workers are loaded, use the server's own figure.
    pool = {worker.id: worker.item.concurrency for worker in serving}
    slots = sum(pool.values()) if known else job.slots if not workers else 0
    pending = counts.get(Status.PENDING, 0)
    return QueueRow(
        job=job,
        state=_state(job, pending=pending, slots=slots),
        pending=pending,
        running=counts.get(Status.RUNNING, 0),
        claimed=counts.get(Status.CLAIMED, 0),
        slots=slots,
        new_slots=slots,
        pool=pool,
        unserved=_unserved(job, serving) if pending and serving else {},
        scheduled=counts.get(Status.SCHEDULED, 0) + counts.get(Status.BLOCKED, 0),
        held=counts.get(Status.PAUSED, 0),
        failed=counts.get(Status.FAILED, 0),
        retrying=min(job.retrying, sum(counts.get(status, 0) for status in WAITING)),
        workers=len(serving),
        rate=recent_rate(job.history.completed, job.history.step_seconds) if job.history else 0.0,
        failing=_failing(job.history),
    )


def _unserved(job: JobItem, serving: Iterable[WorkerRow]) -> Mapping[str, datetime]:
    pools = {worker.item.pool for worker in serving}
    return {pool: at for pool, at in job.oldest_pending_of_pools.items() if pool not in pools}


def _failing(history: QueueHistory | None) -> str:
    if history is None or history.step_seconds <= 0:
        return ""
    steps = max(1, round(60 / history.step_seconds))
    failed = sum(history.failed[-steps:])
    if failed < FAILING_LEAST:
        return ""
    before = sum(history.failed[:-steps])
    done, done_before = sum(history.completed[-steps:]), sum(history.completed[:-steps])
    share = failed / (failed + done)
    usual = before / (before + done_before) if before else 0.0
    if share < 0.05 or share < 2 * usual:
        return ""
    return f"{share:.0%} fail, usually {usual:.0%}" if before + done_before else f"{share:.0%} fail"


def slots_counted_once(rows: Iterable[QueueRow]) -> list[QueueRow]:
    """Return the rows with each worker's slots counted only in the first row, in this order, that it serves."""
    above: set[str] = set()
    lines = []
    for row in rows:
        new_slots = sum(slots for worker, slots in row.pool.items() if worker not in above) if row.pool else row.slots
        above |= row.pool.keys()
        lines.append(row if new_slots == row.new_slots else replace(row, new_slots=new_slots))
    return lines


def summed(jobs: Collection[JobItem]) -> JobItem:
    """Return a job that stands for all of these, with their history and statistics added up."""
    past = [job.past for job in jobs if job.past is not None]
    stats = [job.stats for job in jobs if job.stats is not None]
    measured = None
    if stats:
        # Sums are the dashboard's own, and may be beyond the bounds of the protocol's numbers.
        measured = QueueStats.model_construct(
            since=max(one.since for one in stats),
            wait=Percentiles(),
            run=Percentiles(),
            failed_last_hour=sum(one.failed_last_hour for one in stats),
            retried_last_hour=sum(one.retried_last_hour for one in stats),
        )
    return JobItem(
        id=ALL_QUEUES,
        room_id="",
        category="",
        name="all queues",
        full_name=ALL_QUEUES,
        schema={},
        created_at=min((job.created_at for job in jobs), default=datetime.max.replace(tzinfo=UTC)),
        history=next(iter(together(job.history for job in jobs if job.history is not None)), None),
        past=together(chain.from_iterable(past)) if past else None,
        stats=measured,
    )


def all_queues(rows: Collection[QueueRow], job: JobItem, *, workers: int, slots: int) -> QueueRow:
    """Return the row that stands for all queues, with their figures added up; `job` is the sum of their jobs.

    `workers` and `slots` are totals in which each worker counts once, however many queues it serves.
    """
    oldest = [at for row in rows if (at := row.oldest_pending_at) is not None]
    return QueueRow(
        job=job.model_copy(update={"oldest_pending_at": min(oldest, default=None)}),
        state="open",
        pending=sum(row.pending for row in rows),
        running=sum(row.running for row in rows),
        claimed=sum(row.claimed for row in rows),
        slots=slots,
        new_slots=slots,
        pool={},
        unserved={},
        scheduled=sum(row.scheduled for row in rows),
        held=sum(row.held for row in rows),
        failed=sum(row.failed for row in rows),
        retrying=sum(row.retrying for row in rows),
        workers=workers,
        rate=sum(row.rate for row in rows),
        failing="",
    )


def _state(job: JobItem, *, pending: int, slots: int) -> QueueState:
    if job.paused:
        return "paused"
    # The server runs @internal jobs itself, so they need no workers.
    return "starved" if pending and not slots and job.room_id != INTERNAL else "open"


SORTS: dict[str, Callable[[QueueRow], Any]] = {
    "name": lambda row: (row.job.room_id == INTERNAL, row.name),
    "pending": lambda row: (-row.pending, row.name),
    "oldest": lambda row: (row.oldest_pending_at is None, row.oldest_pending_at, row.name),
    "failed": lambda row: (-row.failed, row.name),
    "rate": lambda row: (-row.rate, row.name),
}
"""The sort orders of the queues' pane, the default first."""


def arranged(rows: Iterable[QueueRow], sort: str, every: QueueRow) -> dict[str, QueueRow]:
    """Return the rows by key, in the pane's order; if there are several, the row for all queues comes first."""
    lines = slots_counted_once(sorted(rows, key=SORTS[sort]))
    return {row.name: row for row in ([every] if len(lines) > 1 else []) + lines}

"""What queues did over five minutes, an hour or a day, as charts draw it; what nobody measured is unknown, not zero."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from treadle.wire.jobs import JobItem, QueueHistory
from treadle_tui.core.draw.spans import USUAL, ChartSpan

RATE_STEPS = 3
"""How many of the last full steps of a history make the rate: 30 seconds are calm, and recent enough to be true."""


@dataclass(frozen=True, slots=True)
class Charted:
    """Counts in the steps of a span, oldest first, the last one not over yet; None where nothing was measured."""

    completed: Sequence[int | None]
    failed: Sequence[int | None]


def charted(jobs: Iterable[JobItem], span: ChartSpan, now: datetime) -> Charted:
    """Return what the jobs together did; of a server that measured less long than that, or never, it is None."""
    jobs = list(jobs)
    histories = [_history(job, span) for job in jobs]
    since = max((job.stats.since for job in jobs if job.stats is not None), default=None)
    nobody = all(history is None for history in histories) or since is None
    known = 0 if since is None or nobody else _known(since, span, now)
    return Charted(
        completed=_summed([history.completed for history in histories if history is not None], span.steps, known),
        failed=_summed([history.failed for history in histories if history is not None], span.steps, known),
    )


def measured_since(jobs: Iterable[JobItem], span: ChartSpan, now: datetime) -> datetime | None:
    """Return since when what is charted is measured, if that is within the span; None when all of it is."""
    since = max((job.stats.since for job in jobs if job.stats is not None), default=None)
    return since if since is not None and now - since < timedelta(seconds=span.seconds) else None


def _history(job: JobItem, span: ChartSpan) -> QueueHistory | None:
    """Return the job's history in the span's steps; an empty one where nothing happened, None where nobody says."""
    if job.history is None:
        return None
    told: list[QueueHistory] = [job.history, *(job.past or ())]
    for history in told:
        if history.step_seconds == span.step_seconds:
            return history
    return None if job.past is None else QueueHistory(step_seconds=span.step_seconds, completed=[], failed=[])


def _known(since: datetime, span: ChartSpan, now: datetime) -> int:
    """Return how many of the last steps were measured, wholly or in part."""
    measured = max(0.0, (now - since) / timedelta(seconds=1))
    return min(span.steps, int(measured // span.step_seconds) + 1)


def _summed(series: Sequence[Sequence[int]], steps: int, known: int) -> list[int | None]:
    # The newest values stand last, so shorter series are added from the end.
    sums = [sum(values[-back] for values in series if back <= len(values)) for back in range(steps, 0, -1)]
    return [None] * (steps - known) + sums[steps - known :]


@dataclass(frozen=True, slots=True)
class Throughput:
    """What all queues together did, per second, oldest first; None where nothing was measured."""

    completed: Sequence[float | None]
    failed: Sequence[float | None]
    completed_rate: float
    failed_rate: float


def throughput(jobs: Sequence[JobItem], span: ChartSpan, now: datetime) -> Throughput:
    """Return what all queues did in each second of the span's steps, and lately."""
    found, lately = charted(jobs, span, now), charted(jobs, USUAL, now)
    return Throughput(
        completed=[None if value is None else value / span.step_seconds for value in found.completed],
        failed=[None if value is None else value / span.step_seconds for value in found.failed],
        completed_rate=recent_rate([value or 0 for value in lately.completed], USUAL.step_seconds),
        failed_rate=recent_rate([value or 0 for value in lately.failed], USUAL.step_seconds),
    )


def recent_rate(values: Sequence[int], step: float) -> float:
    """Return the mean per second of the last full steps; the last value is still being counted and left out."""
    full = values[-1 - RATE_STEPS : -1]
    return sum(full) / (len(full) * step) if full and step > 0 else 0.0

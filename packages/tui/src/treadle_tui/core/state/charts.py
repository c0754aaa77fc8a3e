"""The history of queues over five minutes, an hour or a day, for charts. What was not measured is None, not zero."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest

from treadle.wire.jobs import JobItem, QueueHistory
from treadle_tui.core.draw.spans import USUAL, ChartSpan

RATE_STEPS = 3
"""How many of a history's last full steps make up the rate: 30 seconds are steady enough, and recent enough."""


@dataclass(frozen=True, slots=True)
class Charted:
    """Counts for each step of a span, oldest first, the last one still in progress; None where nothing was measured."""

    completed: Sequence[int | None]
    failed: Sequence[int | None]


def charted(job: JobItem, span: ChartSpan, now: datetime) -> Charted:
    """Return the job's counts; None for steps before the server began to measure, or if it never did."""
    history = _history(job, span)
    if history is None or job.stats is None:
        return Charted([None] * span.steps, [None] * span.steps)
    known = _known(job.stats.since, span, now)
    return Charted(_placed(history.completed, span.steps, known), _placed(history.failed, span.steps, known))


def measured_since(job: JobItem, span: ChartSpan, now: datetime) -> datetime | None:
    """Return when measuring began, if that is within the span; None if the whole span was measured."""
    since = None if job.stats is None else job.stats.since
    return since if since is not None and now - since < timedelta(seconds=span.seconds) else None


def together(histories: Iterable[QueueHistory]) -> list[QueueHistory]:
    """Return one summed history for each length of steps; its sums may be beyond the protocol's numbers."""
    by_step: dict[float, list[QueueHistory]] = {}
    for history in histories:
        by_step.setdefault(history.step_seconds, []).append(history)
    return [
        QueueHistory.model_construct(
            step_seconds=step,
            completed=_summed([history.completed for history in found]),
            failed=_summed([history.failed for history in found]),
        )
        for step, found in by_step.items()
    ]


def _history(job: JobItem, span: ChartSpan) -> QueueHistory | None:
    """Return the job's history in the span's steps: empty if nothing happened, None if the server doesn't report it."""
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


def _placed(values: Sequence[int], steps: int, known: int) -> list[int | None]:
    # The newest values come last; before the start of a shorter series nothing happened.
    whole = [*[0] * (steps - len(values)), *values[-steps:]]
    return [None] * (steps - known) + whole[steps - known :]


def _summed(series: Iterable[Sequence[int]]) -> list[int]:
    # Aligned at the end, where the newest values are. Skip empty series: most of thousands of queues were idle lately.
    backwards = [values[::-1] for values in series if any(values)]
    return [sum(values) for values in zip_longest(*backwards, fillvalue=0)][::-1]


@dataclass(frozen=True, slots=True)
class Throughput:
    """What all queues together did, per second, oldest first; None where nothing was measured."""

    completed: Sequence[float | None]
    failed: Sequence[float | None]
    completed_rate: float
    failed_rate: float


def throughput(job: JobItem, span: ChartSpan, now: datetime) -> Throughput:
    """Return the per-second rates for each of the span's steps, and lately, of a job or of the sum of all jobs."""
    found, lately = charted(job, span, now), charted(job, USUAL, now)
    return Throughput(
        completed=[None if value is None else value / span.step_seconds for value in found.completed],
        failed=[None if value is None else value / span.step_seconds for value in found.failed],
        completed_rate=recent_rate([value or 0 for value in lately.completed], USUAL.step_seconds),
        failed_rate=recent_rate([value or 0 for value in lately.failed], USUAL.step_seconds),
    )


def recent_rate(values: Sequence[int], step: float) -> float:
    """Return the mean per second over the last full steps, without the last value, which is still being counted."""
    full = values[-1 - RATE_STEPS : -1]
    return sum(full) / (len(full) * step) if full and step > 0 else 0.0

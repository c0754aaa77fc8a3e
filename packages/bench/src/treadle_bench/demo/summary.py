"""The results of the demo's tasks, as numbers."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from treadle.wire.status import Status
from treadle.wire.tasks import TaskItem
from treadle_bench.demo.tasks import Counts

SLOWEST = 5
"""How many of the slowest files are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How many tasks ended in which way, how long they took, and what they found. Times are in seconds."""

    files: int
    completed: int
    failed: int
    cancelled: int
    open: int
    errors: dict[str, int]
    """Failures by the type of the error."""
    failures: dict[str, str]
    """The error of each file that failed."""
    slowest: dict[str, float]
    seconds: float
    tasks_per_second: float
    wait_p50: float
    wait_p95: float
    totals: Counts | None
    """What the last task added up."""
    adds_up: bool
    """Whether every task has ended, and the last one has counted each that completed."""


def summarize(files: int, ended: Sequence[TaskItem], last: TaskItem | None) -> Summary:
    """Return the summary of `files` tasks, of which `ended` have ended; `last` is the one that added up."""
    by_status = Counter(item.status for item in ended)
    totals = Counts.model_validate(last.result) if last is not None and last.status is Status.COMPLETED else None
    failures = {item.payload["path"]: item.error or "" for item in ended if item.status is Status.FAILED}
    seconds = _seconds_of_all(ended)
    waits = sorted(_between(item.scheduled_at, item.started_at) for item in ended if item.started_at is not None)
    return Summary(
        files=files,
        completed=by_status[Status.COMPLETED],
        failed=by_status[Status.FAILED],
        cancelled=by_status[Status.CANCELLED],
        open=files - len(ended),
        errors=dict(Counter(error.partition(":")[0] for error in failures.values()).most_common()),
        failures=dict(sorted(failures.items())),
        slowest=_slowest(ended),
        seconds=seconds,
        tasks_per_second=len(ended) / seconds if seconds else 0.0,
        wait_p50=_share(waits, 0.5),
        wait_p95=_share(waits, 0.95),
        totals=totals,
        adds_up=len(ended) == files and totals is not None and totals.files == by_status[Status.COMPLETED],
    )


def _seconds_of_all(ended: Iterable[TaskItem]) -> float:
    """Return the time from the first submit to the last end."""
    spans = [(item.created_at, item.completed_at) for item in ended if item.completed_at is not None]
    if not spans:
        return 0.0
    return _between(min(start for start, _ in spans), max(end for _, end in spans))


def _slowest(ended: Iterable[TaskItem]) -> dict[str, float]:
    took = {
        str(item.payload["path"]): _between(item.started_at, item.completed_at)
        for item in ended
        if item.started_at is not None and item.completed_at is not None
    }
    return dict(sorted(took.items(), key=lambda pair: pair[1], reverse=True)[:SLOWEST])


def _between(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()


def _share(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of them do not exceed; 0 if there are none."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0

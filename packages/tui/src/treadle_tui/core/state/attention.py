"""What needs attention, worst first, and where to look.

Covers starved queues, failures, lost workers, held targets, schedules that are late or skip ticks, and stuck tasks.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from treadle.wire.failures import FailureGroup
from treadle.wire.transitions import ADMITS
from treadle_tui.core.draw.format import age, number, since
from treadle_tui.core.state.queues import QueueRow
from treadle_tui.core.state.schedules import ScheduleRow, late_words
from treadle_tui.core.state.targets import TargetRow, held_words
from treadle_tui.core.state.workers import WorkerRow

Severity: TypeAlias = Literal["bad", "warn"]
AlertKind: TypeAlias = Literal["queue", "failing", "failure", "worker", "target", "schedule", "task"]

LOST_SECONDS = 600.0
"""How long a lost worker raises an alert."""

HELD_SECONDS = 60.0
"""How long a paused or failed task may hold a target that others wait for before an alert is raised."""

BUSY_SECONDS = 900.0
"""The same for a task that is running, stopping or waiting for a retry: it ends by itself, but should be quicker."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that needs attention."""

    severity: Severity
    subject: str
    text: str
    kind: AlertKind
    """Which screen shows it."""
    key: str
    """Which queue, worker, target, schedule, failure or task it is about."""
    at: float = 0.0
    """How many seconds it has lasted, as far as known: the longest is listed first."""

    news: int = 0
    """How bad it is, if that can grow: a dismissed alert is raised again when this changes."""

    def exported(self) -> dict[str, Any]:
        """Return the fields that are written to an exported file."""
        return asdict(self)

    @property
    def id(self) -> str:
        """An id that stays the same for as long as the alert lasts."""
        return f"{self.kind} {self.key}"


class Dismissed:
    """The alerts that the user has dismissed: hidden while they last and grow no worse."""

    def __init__(self) -> None:
        self._alerts: set[tuple[str, Severity, int]] = set()

    def add(self, alert: Alert) -> None:
        """Hide an alert from now on."""
        self._alerts.add(_identity(alert))

    def left(self, raised: Iterable[Alert]) -> list[Alert]:
        """Return the alerts that are not dismissed. One that has ended is forgotten, and shown when raised again."""
        raised = list(raised)
        self._alerts &= set(map(_identity, raised))
        return [alert for alert in raised if _identity(alert) not in self._alerts]


def _identity(alert: Alert) -> tuple[str, Severity, int]:
    return alert.id, alert.severity, alert.news


def alerts(
    queues: Iterable[QueueRow],
    workers: Iterable[WorkerRow],
    targets: Iterable[TargetRow] = (),
    schedules: Iterable[ScheduleRow] = (),
    failures: Iterable[FailureGroup] = (),
    *,
    now: datetime,
) -> list[Alert]:
    """Return what needs attention, worst first."""
    found = [alert for queue in queues for alert in _of_queue(queue, now)]
    workers = list(workers)
    serving = {worker.name for worker in workers if worker.serves and worker.item.name}
    for worker in workers:
        if not worker.serves:
            found += _of_worker(worker, serving)
        if worker.item.running:
            found += _of_runs(worker, now)
    for target in targets:
        found += _of_target(target, now)
    for schedule in schedules:
        found += _of_schedule(schedule, now)
    for group in failures:
        found += _of_failures(group, now)
    return sorted(found, key=lambda alert: (alert.severity != "bad", -alert.at, alert.subject))


def _of_queue(queue: QueueRow, now: datetime) -> Iterator[Alert]:
    waited = since(queue.oldest_pending_at, now) or 0.0
    if queue.state == "starved":
        yield Alert("bad", queue.job.name, f"no live worker, {age(waited)}", "queue", queue.name, waited)
    elif queue.state == "paused" and queue.pending:
        text = f"paused, {number(queue.pending)} wait"
        yield Alert("warn", queue.job.name, text, "queue", queue.name, waited)
    elif queue.unserved:
        longest = max(since(at, now) or 0.0 for at in queue.unserved.values())
        pools = ", ".join(sorted(queue.unserved))
        text = f"no live worker of pool {pools}, {age(longest)}"
        yield Alert("bad", queue.job.name, text, "queue", queue.name, longest)
    if queue.failing:
        yield Alert("warn", queue.job.name, queue.failing, "failing", queue.name)


def _of_worker(worker: WorkerRow, serving: Collection[str]) -> Iterator[Alert]:
    """Yield an alert for a worker in trouble; for a lost one until another of its name serves or the news is old."""
    if worker.health == "late":
        yield Alert("warn", worker.name, f"heartbeat {age(worker.quiet)}", "worker", worker.id, worker.quiet)
    elif worker.health == "away":
        yield Alert("warn", worker.name, f"disconnected {age(worker.away)}", "worker", worker.id, worker.away)
    elif worker.health == "lost" and worker.lost < LOST_SECONDS and worker.name not in serving:
        yield Alert("bad", worker.name, f"lost, {age(worker.quiet)}", "worker", worker.id, worker.quiet)


def _of_runs(worker: WorkerRow, now: datetime) -> Iterator[Alert]:
    for run in worker.stuck:
        seconds = run.seconds(now)
        text = f"running {age(seconds)}, 99% end within {age(run.usual.p99)}"
        name = f"{run.job.rsplit(':', 1)[-1]} {run.task_id[-8:]}"
        yield Alert("warn", name, text, "task", run.task_id, seconds)


def _of_failures(group: FailureGroup, now: datetime) -> Iterator[Alert]:
    """Yield an alert for failed tasks until someone has looked at them, and again when their number has doubled."""
    if group.failed:
        text = f"{number(group.failed)} failed, {group.place}"
        seen = since(group.first_seen_at, now) or 0.0
        yield Alert("warn", group.kind, text, "failure", group.id, seen, news=group.failed.bit_length())


def _of_target(row: TargetRow, now: datetime) -> Iterator[Alert]:
    held = since(row.item.since, now) or 0.0
    least = HELD_SECONDS if row.state in ADMITS["resolve"] else BUSY_SECONDS
    if row.item.held and row.item.waiting and held >= least:
        yield Alert("warn", row.item.name, held_words(row, now), "target", row.item.id, held)


def _of_schedule(row: ScheduleRow, now: datetime) -> Iterator[Alert]:
    if row.state(now) == "late":
        severity: Severity = "warn" if row.has_open_task else "bad"
        overdue = row.overdue(now)
        yield Alert(severity, row.item.name, late_words(row, now), "schedule", row.item.id, overdue)
    elif row.state(now) == "skips":
        without = since(row.item.last_at or row.item.created_at, now) or 0.0
        yield Alert("warn", row.item.name, f"skipped: {row.item.skipped_because}", "schedule", row.item.id, without)

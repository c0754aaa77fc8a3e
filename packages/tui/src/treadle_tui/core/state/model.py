"""The dashboard's state: the tables of its subscriptions, the connection, and what is derived from both.

Only the feed changes it, and screens read it when it reports that something is dirty. It depends on neither.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Flag, auto
from functools import partial
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from treadle.encryption.fields import shown_task, shown_texts
from treadle.encryption.sealer import Sealer
from treadle.wire.estimate import seconds_to_limit
from treadle.wire.failures import FailureGroup
from treadle.wire.fields import Integer
from treadle.wire.frames import Topic
from treadle.wire.jobs import JobItem
from treadle.wire.limits import LimitItem
from treadle.wire.schedules import ScheduleItem
from treadle.wire.status import Status
from treadle.wire.targets import TargetItem
from treadle.wire.tasks import TaskItem
from treadle.wire.workers import WorkerItem
from treadle_tui.core.draw.glyphs import Link
from treadle_tui.core.draw.spans import USUAL, ChartSpan
from treadle_tui.core.state.attention import Alert, Dismissed, alerts
from treadle_tui.core.state.clock import Clock, ServerTime, SystemClock
from treadle_tui.core.state.derived import Derived, QueueLinesMaker
from treadle_tui.core.state.detail import TaskDetail, shown_detail
from treadle_tui.core.state.events import EventLog
from treadle_tui.core.state.forecast import Forecast, forecast
from treadle_tui.core.state.logs import LogRow, log_row
from treadle_tui.core.state.queues import QueueRow
from treadle_tui.core.state.schedules import ScheduleRow
from treadle_tui.core.state.tables import Push, Table
from treadle_tui.core.state.targets import TargetRow
from treadle_tui.core.state.workers import Beats, BusySince, Overdue, WorkerRow, worker_row

GROWTH_SECONDS = 10
"""The seconds over which the growth of pending tasks is measured."""


FRESH_SECONDS = 1.0
"""Data up to this age is shown without its age."""


class Dirty(Flag):
    """The parts that changed since they were last drawn."""

    NONE = 0
    LINK = auto()
    QUEUES = auto()
    WORKERS = auto()
    TASKS = auto()
    TASK = auto()
    TARGETS = auto()
    SCHEDULES = auto()
    EVENTS = auto()
    FAILURES = auto()
    LIMITS = auto()
    LOGS = auto()
    PULSE = auto()
    """The latency and the age of the data, which are only shown in the frame."""
    ALL = LINK | QUEUES | WORKERS | TASKS | TASK | TARGETS | SCHEDULES | EVENTS | FAILURES | LIMITS | LOGS


@dataclass(slots=True)
class LinkState:
    """The connection as shown in the status bar and the banner."""

    state: Link = "connecting"
    detail: str = ""
    """Why there is no connection."""
    last_alive: float | None = None
    """When the server was last heard from, by the monotonic clock."""
    latency: float | None = None
    """The round trip of the last ping, in seconds."""
    hello: Mapping[str, Any] = field(default_factory=dict)
    may_write: bool | None = None
    """Whether the token may change anything; None until the server has said so."""
    scopes: Sequence[str] = ()
    """The token's scopes, as far as known; empty for a token with all rights of a plain user."""

    @property
    def live(self) -> bool:
        """Whether the data on screen is current."""
        return self.state == "live"


class Model:
    """Everything that the dashboard knows."""

    def __init__(self, clock: Clock | None = None, sealer: Sealer | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.sealer = sealer or Sealer(None)
        """Opens encrypted tasks, if there are keys."""
        self.time = ServerTime(self.clock)
        self.link = LinkState()
        self.counts = Table[Mapping[str, int]]("counts", key="job", read=_counts)
        self.jobs = Table[JobItem]("jobs", key="id", read=JobItem.model_validate, whole=True)
        self.workers = Table[WorkerItem]("workers", key="id", read=WorkerItem.model_validate, whole=True)
        self.tasks = Table[TaskItem]("tasks", key="id", read=partial(_task, self.sealer))
        self.task = Table[TaskDetail]("task", key="id", read=partial(_detail, self.sealer))
        self.targets = Table[TargetItem]("targets", key="id", read=TargetItem.model_validate)
        self.schedules = Table[ScheduleItem]("schedules", key="id", read=ScheduleItem.model_validate)
        self.limits = Table[LimitItem]("limits", key="id", read=LimitItem.model_validate)
        self.failures = Table[FailureGroup]("failures", key="id", read=partial(_failure, self.sealer))
        self.logs = Table[LogRow]("logs", key="id", read=partial(log_row, self.sealer))
        self._tables: dict[str, Table[Any]] = {
            table.topic: table for table in vars(self).values() if isinstance(table, Table)
        }
        self.events = EventLog(self.sealer)
        self.is_recorded = False
        """Whether the data comes from a recording, so that nothing more can be requested."""
        self.span: ChartSpan = USUAL
        """The time span of the charts."""
        self._dirty = Dirty.ALL
        self._busy = BusySince()
        self._beats = Beats()
        self._overdue = Overdue()
        self._dismissed = Dismissed()
        self._pending_samples: deque[tuple[float, int]] = deque(maxlen=GROWTH_SECONDS + 1)
        self._queue_lines = QueueLinesMaker()
        self._derived: Derived | None = None

    # For the feed.

    def opened(self, hello: Mapping[str, Any]) -> None:
        """Note that the connection is open and the server has answered the hello."""
        # Samples from before the interruption say nothing about the growth now.
        self._pending_samples.clear()
        for table in self._tables.values():
            table.outdate()
        self.link = LinkState("live", last_alive=self.clock.steady(), latency=self.link.latency, hello=hello)
        self.changed(Dirty.ALL)

    def heard(self, latency: float, behind: Mapping[str, float] = MappingProxyType({})) -> None:
        """Note that a ping was answered after `latency` seconds; `behind` is the age of each subscription then."""
        self.link.last_alive = self.clock.steady()
        self.link.latency = latency
        for table in self._tables.values():
            # Count from when the ping was sent: the answer doesn't cover anything later.
            table.know(self.clock.steady() - latency, behind)
        self._dirty |= Dirty.PULSE

    def lost(self, detail: str, state: Link = "gone") -> None:
        """Note that the connection is lost; `refused` or `denied` if reconnecting alone won't help."""
        self.link.state = state
        self.link.detail = detail
        self._beats.break_off()
        self.changed(Dirty.ALL)

    def recovered(self) -> None:
        """Note that a connection reported as gone has recovered; nothing that came over it was lost."""
        self.link.state, self.link.detail = "live", ""
        self.link.last_alive = self.clock.steady()
        self.changed(Dirty.ALL)

    def apply(self, push: Push) -> None:
        """Apply a snapshot, a delta or events; ignore pushes of other kinds or of old subscriptions."""
        if push["push"] in {"events", "reload"}:
            if self.events.take(push, self.time.now()):
                self.changed(Dirty.EVENTS)
            return
        table = self.table(str(push.get("topic")))
        if push["push"] in {"snapshot", "delta"} and table is not None and table.apply(push):
            self.link.last_alive = self.clock.steady()
            table.came(push, self.clock.steady() - (self.link.latency or 0.0))
            if table is self.workers:
                self._beats.note(self.workers.rows.values())
            self.changed(_PARTS[table.topic])

    def table(self, topic: str) -> Table[Any] | None:
        """Return the table of a topic; None for a topic that the dashboard doesn't know."""
        return self._tables.get(topic)

    def changed(self, part: Dirty) -> None:
        """Mark a part as needing a redraw."""
        self._dirty |= part
        if part & (Dirty.QUEUES | Dirty.WORKERS | Dirty.TARGETS | Dirty.SCHEDULES | Dirty.FAILURES):
            self._derived = None

    def tick(self) -> None:
        """Update what changes with time alone, once a second: workers' health, and the growth of pending tasks."""
        before = [row.health for row in self.worker_rows().values()]
        self._derived = None
        if before != [row.health for row in self.worker_rows().values()]:
            self._dirty |= Dirty.WORKERS | Dirty.QUEUES
        if self.link.live and (self.counts.ready or self.jobs.ready):
            self._pending_samples.append((self.clock.steady(), self.every_queue().pending))

    # For the screens.

    def take_dirty(self) -> Dirty:
        """Return what has changed since the last call."""
        dirty, self._dirty = self._dirty, Dirty.NONE
        return dirty

    def queue_rows(self) -> dict[str, QueueRow]:
        """Return each queue's row by its job's full name."""
        return self._now().lines.rows

    def every_queue(self) -> QueueRow:
        """Return the row that stands for all queues."""
        return self._now().lines.every

    def worker_rows(self) -> dict[str, WorkerRow]:
        """Return each worker's row by its id."""
        return self._now().workers

    def alerts(self) -> list[Alert]:
        """Return what needs attention, worst first."""
        return self._now().alerts

    def dismiss(self, alert: Alert) -> None:
        """Hide an alert until it has ended and is raised again, or grows worse."""
        self._dismissed.add(alert)
        self.changed(Dirty.QUEUES | Dirty.WORKERS)

    def seconds_to_start(self, task: TaskItem) -> float | None:
        """Return in how many seconds a pending task is likely to start; None if that can't be estimated."""
        row = self.queue_rows().get(task.job_name)
        if row is None or task.queue_position is None or task.status is not Status.PENDING:
            return None
        limit = seconds_to_limit(task, self.now()) if task.blocked_by else None
        if task.blocked_by and limit is None:
            return None
        forecasts = self._now().forecasts
        if task.job_name not in forecasts:
            forecasts[task.job_name] = self._forecast(row)
        found = forecasts[task.job_name]
        if found is not None and limit is not None:
            # Tasks before it that wait for other keys are passed over: besides the limit it only needs a free slot.
            return max(limit, found.seconds(1) or 0.0)
        if found is not None and row.job.fair is not None and row.job.stats is not None:
            # In a fair job, positions count within the room, so the pace must be the room's too.
            found = replace(found, pace=(row.job.stats.starts_by_room or {}).get(task.room_id))
        return None if found is None else found.seconds(task.queue_position)

    def _forecast(self, row: QueueRow) -> Forecast | None:
        known = self._now()
        linked = [known.workers[key] for key in row.job.workers if key in known.workers]
        jobs = {name: queue.job for name, queue in known.lines.rows.items()}
        return forecast(row.job, row.pending, linked, jobs, self.now())

    def look_at_failure(self, key: str) -> None:
        """Note that the user looked at a group of failures, so that it raises no alert until it has grown."""
        for alert in self.alerts():
            if (alert.kind, alert.key) == ("failure", key):
                self.dismiss(alert)

    def take_span(self, span: ChartSpan) -> None:
        """Change the time span of the charts."""
        self.span = span
        self.changed(Dirty.QUEUES)

    def growth(self) -> float:
        """Return by how many tasks per second the number of pending tasks has grown lately."""
        if len(self._pending_samples) < 2:
            return 0.0
        (first_at, first), (last_at, last) = self._pending_samples[0], self._pending_samples[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0

    @property
    def is_loaded(self) -> bool:
        """Whether queues and workers have been loaded; until then, nothing can be called healthy."""
        return bool(self.jobs.generation and self.workers.generation)

    @property
    def is_stale(self) -> bool:
        """Whether the data on screen is out of date."""
        is_behind = not self.link.live and self.data_age() is not None
        return is_behind or any(table.outdated for table in self._tables.values())

    def data_age(self) -> float | None:
        """Return how old in seconds the data on every screen may be; None before a server was heard from."""
        if self.link.last_alive is None:
            return None
        # Take the oldest table: an answer that took long, or a connection that brought no data, makes nothing newer.
        known = [table.known_at for table in (self.counts, self.jobs, self.workers) if table.known_at is not None]
        return self.clock.steady() - min(known, default=self.link.last_alive)

    def age(self, *topics: Topic) -> float | None:
        """Return how old in seconds the data of these topics may be; None if too little to mention."""
        known = [at for topic in topics if (at := self._tables[topic].known_at) is not None]
        oldest = self.clock.steady() - min(known, default=self.clock.steady())
        return oldest if oldest > FRESH_SECONDS else None

    def now(self) -> datetime:
        """Return the time that the data is from: the present, or when the server was last heard from."""
        return self.time.now() - timedelta(seconds=self._behind())

    def _behind(self) -> float:
        return 0.0 if self.link.live else self.data_age() or 0.0

    def worker_name(self, worker_id: str | None) -> str | None:
        """Return the worker's name, or the end of its id if it is gone."""
        if worker_id is None:
            return None
        row = self.worker_rows().get(worker_id)
        return row.name if row is not None else worker_id[-8:]

    def _now(self) -> Derived:
        if self._derived is None:
            self._derived = self._derive()
        return self._derived

    def _derive(self) -> Derived:
        now = self.now()
        # Judge workers at the time that their rows are from: if the rows are old, that doesn't make every worker late.
        late = max(self._behind(), self.age("workers") or 0.0)
        beating, steady = self.time.now() - timedelta(seconds=late), self.clock.steady() - late
        self._busy.note(self.workers.rows.values(), steady)
        usual = self._queue_lines.usual(self.jobs.rows)
        workers = {
            key: worker_row(
                item,
                beating,
                busy_for=self._busy.busy_for(key, steady),
                beats=self._beats.of(key),
                usual=usual,
                was_late=self._overdue.includes(item),
            )
            for key, item in self.workers.rows.items()
        }
        self._overdue.note(workers.values())
        lines = self._queue_lines.lines(self.jobs.rows, self.counts.rows, workers)
        targets = [TargetRow(item) for item in self.targets.rows.values()]
        schedules = [ScheduleRow(item) for item in self.schedules.rows.values()]
        failures = self.failures.rows.values()
        raised = alerts(lines.troubled, workers.values(), targets, schedules, failures, now=now)
        return Derived(lines, workers, self._dismissed.left(raised))


_PARTS = {
    "counts": Dirty.QUEUES,
    "jobs": Dirty.QUEUES,
    "workers": Dirty.WORKERS | Dirty.QUEUES,
    "tasks": Dirty.TASKS,
    "task": Dirty.TASK,
    "targets": Dirty.TARGETS,
    "schedules": Dirty.SCHEDULES,
    "limits": Dirty.LIMITS,
    "failures": Dirty.FAILURES | Dirty.QUEUES,
    "logs": Dirty.LOGS,
}


_COUNTS = TypeAdapter(dict[str, Integer])


def _counts(row: dict[str, Any]) -> Mapping[str, int]:
    return _COUNTS.validate_python(row["counts"])


def _task(sealer: Sealer, row: dict[str, Any]) -> TaskItem:
    return TaskItem.model_validate(shown_task(sealer, row))


def _detail(sealer: Sealer, row: dict[str, Any]) -> TaskDetail:
    return TaskDetail.model_validate(shown_detail(sealer, row))


def _failure(sealer: Sealer, row: dict[str, Any]) -> FailureGroup:
    return FailureGroup.model_validate(shown_texts(sealer, row))

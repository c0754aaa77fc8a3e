"""Schedules as the dashboard shows them: when each ticks, when it is next, and what became of its last task."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from treadle.wire.schedules import ScheduleItem
from treadle.wire.status import OPEN
from treadle.wire.tags import has
from treadle.wire.tasks import TaskFilter
from treadle_tui.core.columns import Column, Context
from treadle_tui.core.format import age, short_id, since
from treadle_tui.core.glyphs import SCHEDULE_TONES, TASK_TONES, ScheduleState
from treadle_tui.core.text import Span, Spans, clean

LATE_SECONDS = 60.0
"""How long ago a tick may have been without a task before someone should know."""

_NONE: Spans = (Span("-", "faint"),)


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule's line."""

    item: ScheduleItem

    @property
    def has_open_task(self) -> bool:
        """Whether its last task is not over; no other is made before it is."""
        return self.item.last_status in OPEN

    def overdue(self, now: datetime) -> float:
        """For how many seconds its next tick is past."""
        return max(0.0, since(self.item.next_at, now) or 0.0)

    def state(self, now: datetime) -> ScheduleState:
        """Whether it is paused, late, has a task that is open, or only waits for its tick."""
        if self.item.paused:
            return "paused"
        if self.overdue(now) >= LATE_SECONDS:
            return "late"
        return "open" if self.has_open_task else "waits"


def schedule_rows(items: Iterable[ScheduleItem], wanted: TaskFilter) -> list[ScheduleRow]:
    """Return the schedules that a filter means: those that are next first, paused ones last."""
    rows = [ScheduleRow(item) for item in items if means(wanted, item)]
    return sorted(rows, key=_urgency)


def _urgency(row: ScheduleRow) -> tuple[bool, float, str, str]:
    next_at = row.item.next_at
    return next_at is None, 0.0 if next_at is None else next_at.timestamp(), row.item.name, row.item.id


def means(wanted: TaskFilter, item: ScheduleItem) -> bool:
    """Return whether a filter means a schedule: by its name, room and job, or by its last task.

    What only a task has, such as a worker, no schedule has: a filter with one means none.
    """
    target = item.options.get("target")
    said = [item.name, item.room_id, item.job_name, item.cron or "", item.last_task_id or ""]
    text = (wanted.text or "").casefold()
    return (
        wanted.worker is None
        and wanted.room in {None, item.room_id}
        and wanted.job in {None, item.job_name}
        and wanted.target in {None, target}
        and (wanted.status is None or item.last_status in wanted.status)
        and (wanted.id is None or (item.last_task_id or "").startswith(wanted.id))
        and (wanted.tag is None or has(item.options.get("tags"), wanted.tag))
        and any(text in part.casefold() for part in said)
    )


def _name(row: ScheduleRow, context: Context) -> Spans:
    ascii_only = context.glyphs.ascii_only
    room, name = (clean(part, ascii_only=ascii_only) for part in (row.item.room_id, row.item.name))
    return (Span(f"{room}:", "dim"), Span(name, "bold"))


def when(item: ScheduleItem, *, ascii_only: bool = False) -> str:
    """Return when a schedule ticks, in words."""
    if item.interval is not None:
        return f"every {age(item.interval)}" if item.interval >= 1 else f"every {item.interval:g}s"
    zone = "" if item.zone in {None, "UTC"} else f" {item.zone}"
    return clean(f"{item.cron}{zone}", ascii_only=ascii_only)


def _when(row: ScheduleRow, context: Context) -> Spans:
    return (Span(when(row.item, ascii_only=context.glyphs.ascii_only)),)


def _state(row: ScheduleRow, context: Context) -> Spans:
    state = row.state(context.now)
    return (Span(f"{context.glyphs.schedule[state]} {state}", SCHEDULE_TONES[state]),)


def _next(row: ScheduleRow, context: Context) -> Spans:
    if row.item.next_at is None:
        return _NONE
    ahead = since(context.now, row.item.next_at) or 0.0
    if ahead >= 0:
        return (Span(f"in {age(ahead)}"),)
    return (Span(f"{age(-ahead)} ago", "warn" if -ahead >= LATE_SECONDS else "dim"),)


def _last(row: ScheduleRow, context: Context) -> Spans:
    if row.item.last_at is None:
        return _NONE
    return (Span(f"{age(since(row.item.last_at, context.now))} ago", "dim"),)


def _ended(row: ScheduleRow, context: Context) -> Spans:
    status = row.item.last_status
    return _NONE if status is None else (Span(f"{context.glyphs.task[status]} {status.value}", TASK_TONES[status]),)


def _task(row: ScheduleRow, _: Context) -> Spans:
    return _NONE if row.item.last_task_id is None else (Span(short_id(row.item.last_task_id), "accent"),)


def _job(row: ScheduleRow, context: Context) -> Spans:
    return (Span(clean(row.item.job_name, ascii_only=context.glyphs.ascii_only), "dim"),)


SCHEDULE_COLUMNS: tuple[Column[ScheduleRow], ...] = (
    Column("SCHEDULE", 20, _name, keep_end=True, most=48),
    Column("WHEN", 20, _when, rank=3, most=40),
    Column("STATE", 8, _state),
    Column("NEXT", 9, _next, right=True),
    Column("LAST", 9, _last, right=True, rank=2),
    Column("TASK", 8, _task, rank=4),
    Column("ENDED", 11, _ended),
    Column("JOB", 18, _job, keep_end=True, rank=1, most=64),
)
"""The schedules' pane from left to right; below some width TASK falls away first, then WHEN, LAST, the job."""


def late_words(row: ScheduleRow, now: datetime) -> str:
    """Return why a late schedule wants a look, in words for the attention list."""
    status = row.item.last_status
    why = f"its last task is {status.value}" if status is not None and row.has_open_task else "nothing was made"
    return f"due {age(row.overdue(now))} ago, {why}"

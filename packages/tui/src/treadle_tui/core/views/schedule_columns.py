"""The columns of the schedules' pane."""

from treadle.wire.sealed import ENCRYPTED, seal_of
from treadle_tui.core.draw.columns import NOTHING, CellContext, Column, named_in_room, named_job, stated
from treadle_tui.core.draw.format import age, one_line, period, short_id, since
from treadle_tui.core.draw.glyphs import SCHEDULE_TONES, TASK_TONES
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.state.schedules import LATE_SECONDS, ScheduleRow


def _name(row: ScheduleRow, context: CellContext) -> Spans:
    return named_in_room(row.item.room_id, row.item.name, context)


def _when(row: ScheduleRow, context: CellContext) -> Spans:
    if row.item.interval is not None:
        return (Span(f"every {period(row.item.interval)}"),)
    zone = "" if row.item.zone in {None, "UTC"} else f" {row.item.zone}"
    return (Span(context.glyphs.clean(f"{row.item.cron}{zone}")),)


def _state(row: ScheduleRow, context: CellContext) -> Spans:
    return stated(row.state(context.now), context.glyphs.schedule, SCHEDULE_TONES)


def _next(row: ScheduleRow, context: CellContext) -> Spans:
    if row.item.next_at is None:
        return NOTHING
    ahead = since(context.now, row.item.next_at) or 0.0
    if ahead >= 0:
        return (Span(f"in {age(ahead)}"),)
    return (Span(f"{age(-ahead)} ago", "warn" if -ahead >= LATE_SECONDS else "dim"),)


def _last(row: ScheduleRow, context: CellContext) -> Spans:
    if row.item.last_at is None:
        return NOTHING
    return (Span(f"{age(since(row.item.last_at, context.now))} ago", "dim"),)


def _task_is(row: ScheduleRow, context: CellContext) -> Spans:
    status = row.item.last_status
    return NOTHING if status is None else stated(status, context.glyphs.task, TASK_TONES)


def _task(row: ScheduleRow, _: CellContext) -> Spans:
    return NOTHING if row.item.last_task_id is None else (Span(short_id(row.item.last_task_id), "accent"),)


def _job(row: ScheduleRow, context: CellContext) -> Spans:
    return named_job(row.item.job_name, context, "dim")


def _payload(row: ScheduleRow, context: CellContext) -> Spans:
    if row.item.left_out is not None and "payload" in row.item.left_out:
        return (Span("large", "faint"),)
    if seal_of(row.item.payload) is not None:
        return (Span(ENCRYPTED, "dim"),)
    return (Span(one_line(row.item.payload, context.glyphs, limit=80), "dim"),)


SCHEDULE_COLUMNS: tuple[Column[ScheduleRow], ...] = (
    Column("SCHEDULE", 20, _name, keep_end=True, stem=lambda _: True, most=48, names=True),
    Column("WHEN", 20, _when, rank=3, most=40),
    Column("STATE", 8, _state),
    Column("NEXT", 9, _next, right=True),
    Column("LAST", 9, _last, right=True, rank=2),
    Column("TASK", 8, _task, rank=4),
    Column("TASK IS", 11, _task_is),
    Column("JOB", 18, _job, keep_end=True, stem=lambda _: True, rank=1, most=64),
    Column("PAYLOAD", 12, _payload, most=80, fills=lambda row: bool(row.item.payload or row.item.left_out), extra=True),
)
"""The columns of the schedules' pane, left to right; in a narrow pane TASK is dropped first, then WHEN, LAST, JOB.
PAYLOAD is shown where room is left."""

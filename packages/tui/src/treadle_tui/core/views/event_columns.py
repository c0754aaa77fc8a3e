"""The columns of the events' pane."""

from treadle.wire.status import Status
from treadle_tui.core.draw.columns import NOTHING, CellContext, Column, named, named_job, stated
from treadle_tui.core.draw.format import clock, short_id
from treadle_tui.core.draw.glyphs import TASK_TONES
from treadle_tui.core.draw.text import Span, Spans, Tone
from treadle_tui.core.state.events import EventRow

_STATES = {status.value: status for status in Status}
_OTHER_TONES: dict[str, Tone] = {"paused": "hold", "lost": "bad", "draining": "hold", "deleted": "warn"}


def _what(row: EventRow, context: CellContext) -> Spans:
    """Show a task's old and new status; for queues, workers and schedules, only the new state."""
    match row.kind:
        case "task":
            was = _word(row.was, context) if row.was is not None else "new"
            return (Span(f"{was:>9} {context.glyphs.arrow} ", "faint"), *_state(row.state, context))
        case "queue" | "worker" | "schedule":
            tone = _OTHER_TONES.get(row.state, "ok")
            return (Span(f"{row.kind:>9}   ", "dim"), Span(_word(row.state, context), tone))
        case "gap":
            return (Span(f"{'reloaded:':>9}   missed", "warn"),)


def _state(state: str, context: CellContext) -> Spans:
    if state not in _STATES:
        return (Span(_word(state, context)),)
    return stated(_STATES[state], context.glyphs.task, TASK_TONES)


def _word(text: str, context: CellContext) -> str:
    return context.glyphs.clean(text, limit=9)


def _id(row: EventRow, _: CellContext) -> Spans:
    return (Span(short_id(row.subject), "accent"),) if row.kind == "task" else NOTHING


def _name(row: EventRow, context: CellContext) -> Spans:
    name = row.name or (row.subject[-8:] if row.kind == "worker" else "")
    tone: Tone = "warn" if row.kind == "gap" else "plain"
    return named_job(name, context, tone) if name else NOTHING


def _worker(row: EventRow, context: CellContext) -> Spans:
    return named(context.worker_name(row.worker_id), context)


def _why(row: EventRow, context: CellContext) -> Spans:
    first = next(iter(row.note.strip().splitlines()), "")
    tone: Tone = "warn" if row.kind == "gap" else "bad" if row.state == "failed" else "dim"
    return (Span(context.glyphs.clean(first, limit=300), tone),) if first else ()


EVENT_COLUMNS: tuple[Column[EventRow], ...] = (
    Column("TIME", 8, lambda row, _: (Span(clock(row.at), "dim"),), names=True),
    Column("      WAS   IS", 23, _what),
    Column("TASK", 8, _id),
    Column("JOB", 18, _name, keep_end=True, stem=lambda _: True, rank=1, most=40),
    Column("WORKER", 10, _worker, keep_end=True, rank=3, most=16),
    Column("WHY", 12, _why, rank=2, most=400),
)
"""The columns of the events' pane, left to right."""

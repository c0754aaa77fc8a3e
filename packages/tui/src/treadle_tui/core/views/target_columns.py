"""The columns of the targets' pane."""

from treadle.wire.transitions import ADMITS
from treadle_tui.core.draw.columns import NOTHING, CellContext, Column, count, named, named_in_room, named_job, stated
from treadle_tui.core.draw.format import age, short_id, since
from treadle_tui.core.draw.glyphs import TARGET_TONES
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.state.targets import TargetRow


def _name(row: TargetRow, context: CellContext) -> Spans:
    return named_in_room(row.item.room_id, row.item.name, context)


def _state(row: TargetRow, context: CellContext) -> Spans:
    return stated(row.state, context.glyphs.target, TARGET_TONES)


def _held_for(row: TargetRow, context: CellContext) -> Spans:
    return (Span(age(since(row.item.since, context.now))),) if row.item.held else NOTHING


def _ends(row: TargetRow, context: CellContext) -> Spans:
    """Show when the hold ends by itself; a paused or failed task keeps its target until someone acts."""
    if not row.item.held:
        return NOTHING
    if row.item.until is None:
        return (Span("by hand", "hold"),) if row.state in ADMITS["resolve"] else NOTHING
    return (Span(f"<{age(since(context.now, row.item.until))}", "dim"),)


def _holder(row: TargetRow, _: CellContext) -> Spans:
    if row.holder is None:
        return NOTHING
    more = len(row.item.holders) - 1
    return (Span(short_id(row.holder.task_id), "accent"), *((Span(f" +{more}", "dim"),) if more else ()))


def _job(row: TargetRow, context: CellContext) -> Spans:
    return NOTHING if row.holder is None else named_job(row.holder.job_name, context)


def _worker(row: TargetRow, context: CellContext) -> Spans:
    return named(None if row.holder is None else context.worker_name(row.holder.worker_id), context)


def _next(row: TargetRow, _: CellContext) -> Spans:
    return NOTHING if row.item.next_task_id is None else (Span(short_id(row.item.next_task_id), "accent"),)


TARGET_COLUMNS: tuple[Column[TargetRow], ...] = (
    Column("TARGET", 18, _name, keep_end=True, stem=lambda _: True, most=48, names=True),
    Column("STATE", 10, _state),
    Column("FOR", 5, _held_for, right=True),
    Column("ENDS", 7, _ends, right=True, rank=3),
    Column("HOLDER", 11, _holder),
    Column("WAIT", 6, lambda row, _: count(row.item.waiting, tone="bold", cells=6), right=True),
    Column("NEXT", 8, _next, rank=1),
    Column("WORKER", 10, _worker, keep_end=True, rank=4, most=24),
    Column("HOLDER'S JOB", 18, _job, keep_end=True, stem=lambda _: True, rank=2, most=64),
)
"""The columns of the targets' pane, left to right; in a narrow pane WORKER is dropped first, then ENDS, HOLDER'S JOB
and NEXT."""

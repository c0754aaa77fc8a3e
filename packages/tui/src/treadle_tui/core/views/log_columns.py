"""The columns of the merged logs."""

from treadle_tui.core.draw.columns import CellContext, Column, named_job
from treadle_tui.core.draw.documents import LONGEST
from treadle_tui.core.draw.format import clock, short_id
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.state.logs import LogRow
from treadle_tui.core.views.sheets import LEVEL_TONES


def _level(row: LogRow, context: CellContext) -> Spans:
    word = context.glyphs.clean(row.level, limit=8)
    return (Span(word, LEVEL_TONES.get(row.level, "plain")),)


def _message(row: LogRow, context: CellContext) -> Spans:
    tone = LEVEL_TONES.get(row.level, "plain")
    text = context.glyphs.clean(row.message, limit=LONGEST)
    return (Span(text, "plain" if tone in {"dim", "faint"} else tone),)


def _job(row: LogRow, context: CellContext) -> Spans:
    return named_job(row.job, context, "dim")


LOG_COLUMNS: tuple[Column[LogRow], ...] = (
    Column("TIME", 8, lambda row, _: (Span(clock(row.at), "dim"),), names=True),
    Column("TASK", 8, lambda row, _: (Span(short_id(row.task_id), "accent"),), names=True),
    Column("JOB", 12, _job, keep_end=True, stem=lambda _: True, rank=2, most=30),
    Column("RUN", 3, lambda row, _: (Span(str(row.run_id), "dim"),), right=True, rank=3),
    Column("LEVEL", 8, _level, rank=1),
    Column("MESSAGE", 20, _message, most=LONGEST),
)
"""Left to right; in a narrow pane RUN is dropped first, then JOB, then LEVEL."""

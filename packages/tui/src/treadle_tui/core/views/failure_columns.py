"""The columns of the failures' pane."""

from treadle_tui.core.draw.columns import CellContext, Column, count, named
from treadle_tui.core.draw.format import age, since, sparkline
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.state.failures import FailureRow

HOUR_CELLS = 12
"""The least width of the chart of the last hour, in cells: five minutes each."""


def _hour(row: FailureRow, context: CellContext, cells: int) -> Spans:
    minutes = row.item.per_minute
    return (Span(sparkline(minutes, cells, context.glyphs), "bad" if any(minutes) else "faint"),)


def _last(row: FailureRow, context: CellContext) -> Spans:
    return (Span(f"{age(since(row.item.last_seen_at, context.now))} ago"),)


def _first(row: FailureRow, context: CellContext) -> Spans:
    return (Span(f"{age(since(row.item.first_seen_at, context.now))} ago", "dim"),)


def _error(row: FailureRow, context: CellContext) -> Spans:
    said = row.item.error or ""
    text = said.removeprefix(row.item.kind).lstrip(": ")
    return (Span(context.glyphs.clean(text, limit=300), "dim"),)


def _jobs(row: FailureRow, context: CellContext) -> Spans:
    names = ", ".join(name.rsplit(":", 1)[-1] for name in row.item.jobs)
    return (Span(context.glyphs.clean(names), "dim"),)


FAILURE_COLUMNS: tuple[Column[FailureRow], ...] = (
    Column("ERROR", 16, lambda row, context: named(row.item.kind, context, "bold"), most=32, names=True),
    Column("WHERE", 18, lambda row, context: named(row.item.place, context), keep_end=True, most=40, names=True),
    Column("FAILED", 6, lambda row, _: count(row.item.failed, tone="bad", cells=6), right=True),
    Column("RETRY", 6, lambda row, _: count(row.item.retrying, tone="warn", cells=6), right=True, rank=3),
    Column("RUNS", 6, lambda row, _: count(row.item.runs, cells=6), right=True, rank=4),
    Column("LAST HOUR", HOUR_CELLS, lambda *_: (), rank=2, most=60, chart=_hour),
    Column("LAST", 9, _last, right=True),
    Column("FIRST", 9, _first, right=True, rank=5),
    Column("QUEUES", 10, _jobs, rank=6, most=30),
    Column("SAID", 12, _error, rank=1, most=80),
)
"""The columns of the failures' pane, left to right; QUEUES is dropped first, then FIRST, RUNS, RETRY …"""

"""The columns of the queues' pane."""

from dataclasses import replace
from functools import cache

from treadle.wire.jobs import Percentiles
from treadle.wire.names import INTERNAL
from treadle_tui.core.draw.columns import NOTHING, CellContext, Column, count, named_in_room, stated
from treadle_tui.core.draw.format import age, bar, lasted, number, rate, since, sparkline
from treadle_tui.core.draw.glyphs import QUEUE_TONES
from treadle_tui.core.draw.spans import USUAL, ChartSpan
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.state.charts import charted
from treadle_tui.core.state.queues import ALL_QUEUES, QueueRow
from treadle_tui.core.verbs.keymap import Keymap

BAR = 8
"""The width of a bar of slots, in cells."""


def _job(row: QueueRow, context: CellContext) -> Spans:
    if row.name == ALL_QUEUES:
        return (Span(row.job.name, "bold"),)
    return named_in_room(row.job.room_id, row.job.name, context, within=f"{row.job.category}:")


def _queue_state(row: QueueRow, context: CellContext) -> Spans:
    if row.name == ALL_QUEUES:
        return ()
    return stated(row.state, context.glyphs.queue, QUEUE_TONES, known=context.known)


def slots(used: int, of: int, context: CellContext, *, new_slots: int | None = None) -> Spans:
    """Return a bar of used slots, and both numbers; having no slots at all is shown as bad.

    Only the `new_slots`, which no row above has counted, are written: `+24` if that is some of them, a ditto if none.
    """
    if not context.known:
        return (Span(f"{'':{BAR}} {number(used, cells=4):>3}/", "dim"), Span("?", "dim"))
    share = used / of if of else float(used > 0)
    numbers = Span(number(of, cells=4), "plain" if of else "bad")
    if new_slots is not None and new_slots < of:
        numbers = Span(f"+{number(new_slots, cells=4)}" if new_slots else context.glyphs.ditto, "dim")
    return (*bar(share, BAR, context.glyphs, tone="run"), Span(f" {number(used, cells=4):>3}/"), numbers)


def _queue_slots(row: QueueRow, context: CellContext) -> Spans:
    if row.job.room_id == INTERNAL:
        # The server runs these itself, and has no fixed number of slots for them.
        return (Span(f"{'':{BAR}} {number(row.running, cells=4):>3} ", "plain" if row.running else "faint"),)
    return slots(row.running, row.slots, context, new_slots=row.new_slots)


def _oldest(row: QueueRow, context: CellContext) -> Spans:
    waited = since(row.oldest_pending_at, context.now)
    return NOTHING if waited is None else (Span(age(waited)),)


def _failed(row: QueueRow, _: CellContext) -> Spans:
    stats = row.job.stats
    return NOTHING if stats is None else count(stats.failed_last_hour, tone="bad", cells=6)


def _retrying(row: QueueRow, _: CellContext) -> Spans:
    return count(row.retrying, tone="warn")


def _workers(row: QueueRow, context: CellContext) -> Spans:
    return count(row.workers, cells=3) if context.known else (Span("?", "dim"),)


def _history(row: QueueRow, context: CellContext, cells: int) -> Spans:
    values = charted(row.job, context.span, context.now).completed
    return (Span(sparkline(values, cells, context.glyphs), "accent"),)


def _percentiles(found: Percentiles | None) -> Spans:
    """Return the 50th and 95th percentiles."""
    if found is None or found.p50 is None:
        return (Span(f"{'-':>5} {'-':>5}", "faint"),)
    return (Span(f"{lasted(found.p50):>5} "), Span(f"{lasted(found.p95):>5}", "bold"))


def _waits(row: QueueRow, _: CellContext) -> Spans:
    return _percentiles(row.job.stats.wait if row.job.stats is not None else None)


def _runs(row: QueueRow, _: CellContext) -> Spans:
    return _percentiles(row.job.stats.run if row.job.stats is not None else None)


PERCENTILES = ("WAIT p50 p95", "RUN p50 p95")


def _chart(span: ChartSpan) -> Column[QueueRow]:
    return Column(span.title, 10, lambda *_: (), rank=6, most=span.steps, chart=_history)


_BEFORE: tuple[Column[QueueRow], ...] = (
    Column("JOB", 26, _job, keep_end=True, stem=lambda _: True, most=64, names=True),
    Column("STATE", 9, _queue_state),
    Column("PENDING", 7, lambda row, _: count(row.pending, cells=7, tone="bold"), right=True),
    Column("RUN / SLOTS", BAR + 9, _queue_slots, rank=2, most=BAR + 12),
    Column("CLAIMED", 7, lambda row, _: count(row.claimed), right=True, rank=9, fills=lambda row: row.claimed > 0),
    Column("SCHED", 5, lambda row, _: count(row.scheduled), right=True, rank=8, fills=lambda row: row.scheduled > 0),
    Column("HELD", 5, lambda row, _: count(row.held, tone="hold"), right=True, rank=7, fills=lambda row: row.held > 0),
    Column("FAILED", 6, lambda row, _: count(row.failed, tone="bad", cells=6), right=True, rank=1),
    Column("RETRY", 5, _retrying, right=True, rank=5, fills=lambda row: row.retrying > 0),
    Column("FAIL/h", 6, _failed, right=True, rank=9),
    Column("OLDEST", 6, _oldest, right=True, rank=3),
    Column("RATE/s", 6, lambda row, _: (Span(rate(row.rate), "plain" if row.rate else "faint"),), right=True, rank=4),
)
_AFTER: tuple[Column[QueueRow], ...] = (
    Column("WKR", 3, _workers, right=True, rank=10),
    Column(PERCENTILES[0], 12, _waits, right=True, rank=11),
    Column(PERCENTILES[1], 11, _runs, right=True, rank=12),
)


@cache
def columns(span: ChartSpan = USUAL, *, wide: int = 0) -> tuple[Column[QueueRow], ...]:
    """Return the columns of the queues' pane, left to right, with a chart over `span`.

    RUN p50 p95 is dropped first, then WAIT p50 p95, WKR, FAIL/h, SCHED … `wide` makes room for names of that many
    cells, and for both percentiles, at the cost of other columns.
    """
    job, *others = _BEFORE
    if not wide:
        return (*_BEFORE, _chart(span), *_AFTER)
    return (job.at_least(wide), *(_of_wide(column) for column in (*others, _chart(span), *_AFTER)))


def _of_wide(column: Column[QueueRow]) -> Column[QueueRow]:
    return replace(column, rank=1 if column.title in PERCENTILES else column.rank and column.rank + 1)


FRAME = 3
"""The lines of the pane that are not queues."""

BESIDE = 13
"""The lines of a low screen that are not queues: nine fixed ones, the mode line, two of a notice, and a task's."""


def queues_height(queues: int, height: int) -> int:
    """Return the height of the pane on a screen of this height: a third of it, if that leaves a line for a task."""
    return max(1, min(queues or 4, height // 3, height - BESIDE)) + FRAME


def queues_foot(keymap: Keymap, *, sort: str, charts: str) -> Spans:
    """Return how the pane is sorted and drawn, with the keys that change it."""
    said = {"sort": f"sort: {sort}", "wide": "wide", "span": charts}
    return (Span("  ".join(f"{keymap.cap(name)} {word}" for name, word in said.items()), "dim"),)

"""The columns of the queues' and the workers' panes."""

from treadle.wire.names import INTERNAL
from treadle_tui.core.columns import Column, Context
from treadle_tui.core.format import age, bar, number, rate, since, sparkline
from treadle_tui.core.glyphs import QUEUE_TONES, WORKER_TONES
from treadle_tui.core.queues import QueueRow
from treadle_tui.core.text import Span, Spans, Tone, clean, joined
from treadle_tui.core.workers import STRIP, Pace, RunRow, WorkerRow

MOST_RUNS = 40
"""How many of a worker's runs are named at most: more are on no screen."""


def _count(value: int, *, tone: Tone = "plain", cells: int = 5) -> Spans:
    return (Span(number(value, cells=cells), tone if value else "faint"),)


def _job(row: QueueRow, context: Context) -> Spans:
    room, category, name = (
        clean(part, ascii_only=context.glyphs.ascii_only) for part in (row.job.room_id, row.job.category, row.job.name)
    )
    return (Span(f"{room}:{category}:", "dim"), Span(name, "bold"))


def _queue_state(row: QueueRow, context: Context) -> Spans:
    return (Span(f"{context.glyphs.queue[row.state]} {row.state}", QUEUE_TONES[row.state]),)


def _slots(used: int, slots: int, context: Context) -> Spans:
    share = used / slots if slots else float(used > 0)
    return (
        *bar(share, 10, context.glyphs, tone="run"),
        Span(f"{number(used, cells=4):>4}/"),
        Span(number(slots, cells=4), "plain" if slots else "bad"),
    )


def _queue_slots(row: QueueRow, context: Context) -> Spans:
    if row.job.room_id == INTERNAL:
        # The server runs these itself, as many as come.
        return (Span(f"{'':10} {number(row.running, cells=4):>4} ", "plain" if row.running else "faint"),)
    return _slots(row.running, row.slots, context)


def _oldest(row: QueueRow, context: Context) -> Spans:
    waited = since(row.oldest_pending_at, context.now)
    return (Span("-", "faint"),) if waited is None else (Span(age(waited)),)


def _failed(row: QueueRow, _: Context) -> Spans:
    stats = row.job.stats
    return (Span("-", "faint"),) if stats is None else _count(stats.failed_last_hour, tone="bad", cells=6)


QUEUE_COLUMNS: tuple[Column[QueueRow], ...] = (
    Column("JOB", 18, _job, keep_end=True, most=64),
    Column("STATE", 9, _queue_state),
    Column("PENDING", 7, lambda row, _: _count(row.pending, cells=7, tone="bold"), right=True),
    Column("RUN / SLOTS", 17, _queue_slots, rank=2),
    Column("SCHED", 5, lambda row, _: _count(row.scheduled), right=True, rank=6),
    Column("HELD", 5, lambda row, _: _count(row.held, tone="hold"), right=True, rank=5),
    Column("FAIL/h", 6, _failed, right=True, rank=1),
    Column("OLDEST", 6, _oldest, right=True, rank=3),
    Column("RATE/s", 6, lambda row, _: (Span(rate(row.rate), "plain" if row.rate else "faint"),), right=True, rank=4),
    Column(
        "LAST 5 MIN",
        10,
        lambda row, context: (Span(sparkline(_thinned(row, 10), 10, context.glyphs), "accent"),),
        rank=7,
    ),
    Column("WKR", 3, lambda row, _: _count(row.workers, cells=3), right=True, rank=8),
)
"""The queues' pane from left to right; WKR falls away first, then LAST 5 MIN, SCHED, HELD …"""


def _thinned(row: QueueRow, cells: int) -> list[int]:
    """Add up neighbouring steps, so that the whole history stands in the cells."""
    values = list(row.completed)
    step = max(1, -(-len(values) // cells))
    head = len(values) % step
    sums = [sum(values[index : index + step]) for index in range(head, len(values), step)]
    return [sum(values[:head]), *sums] if head else sums


def _worker_name(row: WorkerRow, context: Context) -> Spans:
    return (Span(clean(row.name, ascii_only=context.glyphs.ascii_only), "bold"),)


def _health(row: WorkerRow, context: Context) -> Spans:
    return (Span(f"{context.glyphs.worker[row.health]} {row.health}", WORKER_TONES[row.health]),)


def _beat(row: WorkerRow, context: Context) -> Spans:
    """Draw a cell for each heartbeat that was expected, the last one on the right, and how long ago one came."""
    glyphs = context.glyphs
    tone: Tone = "warn" if row.health == "late" else "bad" if row.health == "lost" else "plain"
    strip = [Span(glyphs.beat, "ok") if came else Span(glyphs.missed, "warn") for came in row.beats]
    return (Span(" " * (STRIP - len(strip))), *strip, Span(f" {age(row.quiet):>5}", tone))


_PACE_TONES: dict[Pace, Tone] = {"stuck": "bad", "slow": "warn", "usual": "plain"}


def _runs(row: WorkerRow, context: Context) -> Spans:
    """Tell how long each run has taken against half of its kind, with a word when it takes much longer."""
    if not row.runs:
        return (Span("-", "faint"),)
    return joined((_run(run, context) for run in row.runs[:MOST_RUNS]), gap="  ")


def _run(run: RunRow, context: Context) -> Spans:
    pace = run.pace(context.now)
    name = clean(run.job.rsplit(":", 1)[-1] or run.task_id[-8:], ascii_only=context.glyphs.ascii_only)
    time = age(run.seconds(context.now)) if run.since is not None else ""
    usual = f"/{age(run.usual.p50)}" if run.usual.p50 is not None and time else ""
    word = f" {pace}" if pace != "usual" else ""
    return (Span(f"{name} ", "dim"), Span(f"{time}{usual}{word}", _PACE_TONES[pace]))


def _word(value: str | None, context: Context) -> Spans:
    return (Span(clean(value, ascii_only=context.glyphs.ascii_only), "dim"),) if value else (Span("-", "faint"),)


WORKER_COLUMNS: tuple[Column[WorkerRow], ...] = (
    Column("WORKER", 16, _worker_name, keep_end=True, most=40),
    Column("STATE", 10, _health),
    Column("HEARTBEATS", STRIP + 6, _beat),
    Column("USED / SLOTS", 17, lambda row, context: _slots(row.item.used, row.item.concurrency, context), rank=1),
    Column("JOBS", 4, lambda row, _: _count(row.item.job_count or len(row.item.jobs), cells=4), right=True, rank=4),
    Column("POOL", 8, lambda row, context: _word(row.item.pool, context), rank=3, most=16),
    Column("VERSION", 8, lambda row, context: _word(row.item.version, context), rank=5, most=16),
    Column("UP", 5, lambda row, context: (Span(age(since(row.item.created_at, context.now))),), right=True, rank=6),
    Column("RUNS NOW / USUALLY", 34, _runs, rank=2, most=400),
)
"""The workers' pane from left to right."""

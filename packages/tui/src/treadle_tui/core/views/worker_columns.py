"""The columns of the workers' pane."""

from treadle_tui.core.draw.columns import NOTHING, CellContext, Column, count, named, stated
from treadle_tui.core.draw.format import age, lasted, number, since
from treadle_tui.core.draw.glyphs import WORKER_TONES
from treadle_tui.core.draw.text import Span, Spans, Tone, joined
from treadle_tui.core.state.workers import BEATS_SHOWN, Pace, RunRow, WorkerRow
from treadle_tui.core.views.queue_columns import BAR, slots

MOST_RUNS = 40
"""The most runs of a worker that are named: no screen has room for more."""


MOST_JOBS = 10
"""The most jobs of a worker that are named."""


def _health(row: WorkerRow, context: CellContext) -> Spans:
    return stated(row.health, context.glyphs.worker, WORKER_TONES, known=context.known)


def _beat(row: WorkerRow, context: CellContext) -> Spans:
    """Draw a cell for each expected heartbeat, newest on the right, and the time since the last one."""
    glyphs = context.glyphs
    tone = WORKER_TONES[row.health] if row.health in {"late", "lost"} else "plain"
    strip = [Span(glyphs.beat, "ok") if came else Span(glyphs.missed, "warn") for came in row.beats]
    quiet = age(row.quiet) if context.known else "?"
    return (Span(" " * (BEATS_SHOWN - len(strip))), *strip, Span(f" {quiet:>5}", tone))


_PACE_TONES: dict[Pace, Tone] = {"stuck": "bad", "slow": "warn", "usual": "plain"}


def _runs(row: WorkerRow, context: CellContext) -> Spans:
    """Show how long each run has taken next to the median for its job, with a word if it takes much longer."""
    if not row.runs:
        return NOTHING
    return joined((_run(run, context) for run in row.runs[:MOST_RUNS]), gap="  ")


def _run(run: RunRow, context: CellContext) -> Spans:
    pace = run.pace(context.now)
    name = context.glyphs.clean(run.job.rsplit(":", 1)[-1] or run.task_id[-8:])
    time = age(run.seconds(context.now)) if run.since is not None else ""
    usual = f"/{lasted(run.usual.p50)}" if run.usual.p50 is not None and time else ""
    word = f" {pace}" if pace != "usual" else ""
    return (Span(f"{name} ", "dim"), Span(f"{time}{usual}{word}", _PACE_TONES[pace]))


def _used(row: WorkerRow, context: CellContext) -> Spans:
    """Draw the used slots, followed by the weight that was claimed beyond them and waits in the worker."""
    used, of = row.item.used, row.item.concurrency
    ahead = used - of
    return (*slots(min(used, of), of, context), *((Span(f" +{number(ahead, cells=3)}", "dim"),) if ahead > 0 else ()))


def _serves(row: WorkerRow, context: CellContext) -> Spans:
    names = [context.glyphs.clean(job.split(":", 2)[-1]) for job in row.item.jobs[:MOST_JOBS]]
    return (Span("  ".join(names), "dim"),)


WORKER_COLUMNS: tuple[Column[WorkerRow], ...] = (
    Column("WORKER", 16, lambda row, context: named(row.name, context, "bold"), keep_end=True, most=40, names=True),
    Column("STATE", 10, _health),
    Column("HEARTBEATS", BEATS_SHOWN + 6, _beat),
    Column("USED / SLOTS", BAR + 9, _used, rank=1, most=BAR + 14),
    Column("JOBS", 4, lambda row, _: count(row.item.job_count or len(row.item.jobs), cells=4), right=True, rank=4),
    Column("POOL", 8, lambda row, context: named(row.item.pool, context, "dim"), rank=3, most=16),
    Column("VERSION", 8, lambda row, context: named(row.item.version, context, "dim"), rank=5, most=16),
    Column("UP", 5, lambda row, context: (Span(age(since(row.item.created_at, context.now))),), right=True, rank=6),
    Column("RUNS NOW / USUALLY", 16, _runs, rank=2, most=400),
    Column("SERVES", 12, _serves, most=80, fills=lambda row: bool(row.item.jobs), extra=True),
)
"""The columns of the workers' pane, left to right; SERVES is shown where room is left."""

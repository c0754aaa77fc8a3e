"""The columns of a flow's tree, and the lines above and beneath it."""

from treadle.wire.amounts import counted, percent
from treadle.wire.flows import FlowView
from treadle.wire.status import TERMINAL, Status
from treadle_tui.core.draw.columns import CellContext, Column, stated
from treadle_tui.core.draw.format import bar, lasted, number, short_id
from treadle_tui.core.draw.glyphs import TASK_TONES, Glyphs
from treadle_tui.core.draw.text import Span, Spans, Tone, clip, joined
from treadle_tui.core.state.flow import DEEPEST, FlowLines, FlowRow
from treadle_tui.core.views.pane import GONE

NAME_CELLS, PROGRESS_CELLS = 24, 12

_FIRST: tuple[Status, ...] = (
    *(Status.FAILED, Status.RUNNING, Status.CLAIMED, Status.PAUSED, Status.PENDING, Status.BLOCKED, Status.SCHEDULED),
    *(Status.COMPLETED, Status.CANCELLED),
)
"""The order in which counts are shown: what needs attention first, in case the line is too short for all."""


def _name(row: FlowRow, context: CellContext) -> Spans:
    name = context.glyphs.clean(row.task.job_name.rsplit(":", 1)[-1])
    steps = _steps(row, context.glyphs)
    if row.is_above:
        return Span(steps, "faint"), Span(name, "dim"), Span(" above", "faint")
    return Span(steps, "faint"), Span(name, "bold" if row.is_critical else "plain")


def _steps(row: FlowRow, glyphs: Glyphs) -> str:
    """Return the tree lines that lead down to a task; each ends at the last task of its branch."""
    rails = [f"{glyphs.rail} " if more else "  " for more in row.continues]
    if row.depth > DEEPEST:
        return f"{''.join(rails)}{row.depth}: "
    rails[-1:] = [f"{glyphs.branch if more else glyphs.turn} " for more in row.continues[-1:]]
    return "".join(rails)


def _state(row: FlowRow, context: CellContext) -> Spans:
    return stated(row.task.status, context.glyphs.task, TASK_TONES)


def _took(row: FlowRow, _: CellContext) -> Spans:
    return (Span(lasted(row.seconds), "plain" if row.seconds is not None else "faint"),)


def _critical(row: FlowRow, context: CellContext) -> Spans:
    return (Span(context.glyphs.arrow, "accent"),) if row.is_critical else ()


def _waits(row: FlowRow, _: CellContext) -> Spans:
    waits = row.task.waits_for if row.task.status not in TERMINAL else None
    return (Span(number(waits, cells=6), "dim"),) if waits else ()


def _said(row: FlowRow, context: CellContext) -> Spans:
    if row.is_above:
        return ()
    task = row.task
    lines = [line for line in (task.error or "").splitlines() if line.strip()]
    why = task.reason.value if task.reason is not None and task.reason.value != task.status.value else ""
    text = lines[-1] if lines else why
    tone: Tone = "bad" if task.status is Status.FAILED else "dim"
    return (Span(context.glyphs.clean(text, limit=300), tone),)


FLOW_COLUMNS: tuple[Column[FlowRow], ...] = (
    Column("TASK", 22, _name, most=64, names=True),
    Column("PATH", 4, _critical),
    Column("STATE", 11, _state),
    Column("TOOK", 5, _took, right=True),
    Column("WAITS", 5, _waits, right=True, rank=3),
    Column("ID", 8, lambda row, _: (Span(short_id(row.task.id), "dim"),), rank=2),
    Column("SAID", 10, _said, rank=1, most=80),
)
"""The columns of the tree, left to right; WAITS is dropped first, then ID, then SAID."""


def flow_title(view: FlowView | None, glyphs: Glyphs) -> Spans:
    """Return the flow's name, progress and counts."""
    if view is None:
        return (Span("Flow", "title"),)
    written = glyphs.clean(view.name or short_id(view.id))
    # Clip the name, so that it doesn't push the progress out of sight.
    name = clip(written, NAME_CELLS, ellipsis=glyphs.ellipsis)
    share = (*bar(view.progress, PROGRESS_CELLS, glyphs, tone="run"), Span(f" {percent(view.progress)}", "bold"))
    return joined(
        ((Span("Flow", "title"),), (Span(name, "bold"),), share, (Span(f"of {view.total:,}"),), _counts(view, glyphs)),
        gap="  ",
    )


def _counts(view: FlowView, glyphs: Glyphs) -> Spans:
    shown = [status for status in _FIRST if view.counts.get(status.value)]
    words = [f"{glyphs.task[status]} {view.counts[status.value]:,} {status.value}" for status in shown]
    return joined((Span(word, TASK_TONES[status]),) for status, word in zip(shown, words, strict=True))


def flow_foot(view: FlowView | None, lines: FlowLines, *, refusal: str | None, is_gone: bool, read_only: bool) -> Spans:
    """Return the critical path, and notes on what is not shown."""
    parts: list[Spans] = []
    if is_gone:
        parts.append((Span(f"this flow is {GONE}", "warn"),))
    elif refusal is not None and view is not None:
        parts.append((Span(f"not refreshed: {refusal}", "warn"),))
    if view is not None and view.is_capped:
        parts.append((Span(f"only the first {len(view.tasks):,}; :filter job:* flow:{view.id} lists all", "warn"),))
    if lines.critical.seconds:
        chain = lines.critical
        parts.append((Span(f"critical path {counted(len(chain.tasks), 'task')}, {lasted(chain.seconds)}", "dim"),))
    if not read_only and not is_gone:
        parts.append((Span("keys act on the whole flow", "dim"),))
    return joined(parts, gap="   ")

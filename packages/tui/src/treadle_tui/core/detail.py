"""One task with its runs and logs, and its life told as a rail of events."""

from collections.abc import Iterator
from datetime import datetime

from pydantic import Field

from treadle.wire.fields import Model
from treadle.wire.runs import LogItem
from treadle.wire.status import Outcome, Status
from treadle.wire.tasks import RunItem, TaskItem
from treadle_tui.core.format import age, clock, since, task_state
from treadle_tui.core.glyphs import TASK_TONES, Glyphs
from treadle_tui.core.text import Span, Spans, Tone, clean

_OUTCOMES: dict[str, Status] = {
    Outcome.COMPLETED: Status.COMPLETED,
    Outcome.FAILED: Status.FAILED,
    Outcome.EXCEPTION: Status.FAILED,
    Outcome.PAUSED: Status.PAUSED,
    Outcome.CANCELLED: Status.CANCELLED,
    Outcome.RETURNED: Status.PENDING,
    "claimed": Status.CLAIMED,
    "running": Status.RUNNING,
}


class TaskDetail(Model):
    """The row of the topic `task`."""

    id: str
    task: TaskItem
    runs: list[RunItem] = Field(default_factory=list)
    logs: list[LogItem] = Field(default_factory=list)


def timeline(detail: TaskDetail, now: datetime, glyphs: Glyphs) -> list[Spans]:
    """Return the task's life, a line for each event: created, wait, start, end, back-off, and what it is now."""
    task = detail.task
    lines: list[Spans] = [_event(task.created_at, glyphs.ring, "created", "dim")]
    before = task.created_at
    for run in sorted(detail.runs, key=lambda run: run.run_id):
        lines.append(_gap(f"waited {age(since(before, run.claimed_at))}", glyphs))
        lines.extend(_run(run, now, glyphs))
        before = run.ended_at or run.started_at or run.claimed_at
    if task.status in {Status.SCHEDULED, Status.PENDING, Status.PAUSED}:
        lines.append(_gap(f"waits {age(since(before, now))}", glyphs))
        state = task_state(task, now, glyphs)
        place = f", position {task.queue_position:,}" if task.queue_position is not None else ""
        lines.append((Span(f"{'now':>8} "), Span(f"{state.text}{place}", state.tone)))
    elif task.completed_at is not None and not _ends_with_run(detail):
        lines.append(_event(task.completed_at, glyphs.task[task.status], _ending(task), TASK_TONES[task.status]))
    return lines


def _run(run: RunItem, now: datetime, glyphs: Glyphs) -> Iterator[Spans]:
    who = clean(run.worker_name or (run.worker_id or "the server")[-8:], ascii_only=glyphs.ascii_only)
    if run.started_at is None:
        yield _event(run.claimed_at, glyphs.task[Status.CLAIMED], f"run {run.run_id} claimed by {who}", "run")
    else:
        yield _event(run.started_at, glyphs.task[Status.RUNNING], f"run {run.run_id} on {who}", "run")
    begun = run.started_at or run.claimed_at
    if run.ended_at is None:
        yield _gap(f"runs {age(since(begun, now))}", glyphs)
        return
    yield _gap(f"ran {age(since(begun, run.ended_at))}", glyphs)
    status = _OUTCOMES[str(run.status)]
    why = f": {run.reason.value}" if run.reason is not None and run.reason.value != str(run.status) else ""
    yield _event(run.ended_at, glyphs.task[status], f"{run.status}{why}", TASK_TONES[status])
    if run.error:
        first = next(iter(run.error.strip().splitlines()), "")
        error = clean(first, limit=200, ascii_only=glyphs.ascii_only)
        yield (Span(f"{'':>8} {glyphs.rail} ", "faint"), Span(error, "bad"))


def _ends_with_run(detail: TaskDetail) -> bool:
    last = max(detail.runs, key=lambda run: run.run_id, default=None)
    if last is None or last.ended_at is None or detail.task.settled:
        return False
    return str(last.status) == detail.task.status.value


def _ending(task: TaskItem) -> str:
    why = f": {task.reason.value}" if task.reason is not None and task.reason.value != task.status.value else ""
    return f"{task.status.value}{', settled by hand' if task.settled else ''}{why}"


def _event(at: datetime, glyph: str, text: str, tone: Tone) -> Spans:
    return (Span(f"{clock(at)} ", "dim"), Span(f"{glyph} ", tone), Span(text, tone))


def _gap(text: str, glyphs: Glyphs) -> Spans:
    return (Span(f"{'':>8} {glyphs.rail} ", "faint"), Span(text, "dim"))

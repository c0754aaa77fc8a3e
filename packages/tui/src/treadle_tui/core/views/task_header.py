"""The lines above a task's screen: what the task is, its state, and its options."""

import re
from collections.abc import Sequence

from treadle.wire.status import TERMINAL, Status
from treadle.wire.tags import shown
from treadle_tui.core.draw.columns import CellContext
from treadle_tui.core.draw.format import age, bar, rate, short_id, since, task_state
from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.text import Span, Spans, clean, joined
from treadle_tui.core.setup.app_state import TRACE_ID
from treadle_tui.core.state.detail import TaskDetail
from treadle_tui.core.views.task_columns import estimated_wait, progress_of, tries

_TRACE_ID = re.compile(r"[0-9A-Fa-f]{8,64}")


def header(detail: TaskDetail, context: CellContext, *, trace_url: str | None = None) -> list[Spans]:
    """Return the three lines above a task. The trace id is a link if `trace_url` is the address of a trace viewer."""
    task, glyphs = detail.task, context.glyphs
    return [
        (
            Span(" "),
            Span(clean(task.id), "accent"),
            Span("  "),
            Span(glyphs.clean(task.job_name, limit=200), "bold"),
            Span(f"  room {glyphs.clean(task.room_id, limit=200)}", "dim"),
        ),
        (
            Span(" "),
            task_state(task, context.now, glyphs),
            Span("   "),
            *joined((_progress(detail, glyphs), _facts(_standing(detail, context), glyphs)), gap="   "),
        ),
        (Span(" "), *_linked(_facts(_options(detail, context), glyphs), task.trace_id, trace_url)),
    ]


def _linked(spans: Spans, trace_id: str | None, trace_url: str | None) -> Spans:
    """Turn the trace id into a link. An invalid id, perhaps from hostile code, is not put into an address."""
    if trace_url is None or trace_id is None or not _TRACE_ID.fullmatch(trace_id):
        return spans
    link = trace_url.replace(TRACE_ID, trace_id)
    return tuple(Span(text, tone, link if text == trace_id else old) for text, tone, old in spans)


def _standing(detail: TaskDetail, context: CellContext) -> list[tuple[str, str]]:
    task = detail.task
    facts = [
        ("try", tries(task)),
        ("age", age(since(task.created_at, context.now))),
    ]
    due = estimated_wait(task, context) if task.status is Status.SCHEDULED and task.next_retry_at is None else None
    if due is not None:
        facts.append(("due in", age(due)))
    if task.queue_position is not None:
        wait = estimated_wait(task, context)
        facts.append(("position", f"{task.queue_position:,}" + (f" (~{age(wait)})" if wait is not None else "")))
    if task.blocked_by:
        facts.append(("held by", " ".join(key[-8:] for key in task.blocked_by[:3])))
    if task.waits_for and task.status not in TERMINAL:
        facts.append(("waits for", f"{task.waits_for:,}"))
    return facts


def _progress(detail: TaskDetail, glyphs: Glyphs) -> Spans:
    share, message = progress_of(detail.task)
    if detail.task.status in TERMINAL or (share is None and not message):
        return ()
    words = (Span(glyphs.clean(message, limit=200)),) if message else ()
    if share is None:
        return words
    return joined(((*bar(share, 12, glyphs, tone="run"), Span(f" {min(1.0, max(0.0, share)):.0%}", "bold")), words))


def _options(detail: TaskDetail, context: CellContext) -> list[tuple[str, str]]:
    task = detail.task
    left = since(context.now, task.deadline) if task.deadline is not None and task.status not in TERMINAL else None
    told: list[tuple[str, str | None]] = [
        ("priority", str(task.priority)),
        ("target", task.target),
        ("pool", task.pool),
        ("weight", str(task.weight) if task.weight != 1 else None),
        ("timeout", age(task.timeout) if task.timeout is not None else None),
        ("deadline in", age(left) if left is not None else None),
        ("budget", f"{rate(task.usage or 0)}/{rate(task.budget)}" if task.budget is not None else None),
        ("key", task.unique_key),
        ("by", task.submitter),
        ("encrypted", "yes" if task.encrypted else None),
        ("flow", short_id(task.flow_id) if task.flow_id is not None else None),
        ("trace", task.trace_id),
        ("tags", " ".join(shown(task.tags)) or None),
    ]
    return [(name, value) for name, value in told if value is not None]


def _facts(facts: Sequence[tuple[str, str]], glyphs: Glyphs) -> Spans:
    return joined(((Span(f"{name} ", "dim"), Span(glyphs.clean(value, limit=200))) for name, value in facts), gap="   ")

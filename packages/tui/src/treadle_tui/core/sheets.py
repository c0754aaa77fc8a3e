"""The sheets of a task's screen, and its header."""

from collections.abc import Callable, Sequence
from typing import Any

from treadle.wire.runs import LogItem
from treadle_tui.core.columns import Context
from treadle_tui.core.detail import TaskDetail
from treadle_tui.core.format import age, clock, pretty, rate, since, task_state
from treadle_tui.core.glyphs import Glyphs
from treadle_tui.core.tasks import estimated_wait, progress_of
from treadle_tui.core.text import Span, Spans, Tone, clean, joined

SHEETS = ("error", "payload", "result", "checkpoint", "logs")

_LEVELS: dict[str, Tone] = {"debug": "faint", "info": "plain", "warning": "warn", "error": "bad", "critical": "bad"}


def header(detail: TaskDetail, context: Context) -> list[Spans]:
    """Return the three lines over a task: what it is, where it stands, and how it is run."""
    task, glyphs = detail.task, context.glyphs
    facts: list[tuple[str, str]] = [
        ("try", f"{task.retry_count + (task.run_id is not None)}/{task.max_retries + 1}"),
        ("age", age(since(task.created_at, context.now))),
    ]
    if task.queue_position is not None:
        wait = estimated_wait(task, context)
        facts.append(("position", f"{task.queue_position:,}" + (f" (~{age(wait)})" if wait is not None else "")))
    if task.blocked_by:
        facts.append(("held by", " ".join(key[-8:] for key in task.blocked_by[:3])))
    share, message = progress_of(task)
    if share is not None:
        facts.append(("progress", f"{share:.0%} {message}".strip()))
    options: list[tuple[str, str | None]] = [
        ("priority", str(task.priority)),
        ("target", task.target),
        ("pool", task.pool),
        ("weight", str(task.weight) if task.weight != 1 else None),
        ("timeout", age(task.timeout) if task.timeout is not None else None),
        ("budget", f"{rate(task.usage or 0)}/{rate(task.budget)}" if task.budget is not None else None),
        ("by", task.submitter),
        ("tags", " ".join(f"{key}={value}" for key, value in sorted((task.tags or {}).items())) or None),
    ]
    return [
        (
            Span(" "),
            Span(clean(task.id), "accent"),
            Span("  "),
            Span(_clean(task.job_name, glyphs), "bold"),
            Span(f"  room {_clean(task.room_id, glyphs)}", "dim"),
        ),
        (Span(" "), task_state(task, context.now, glyphs), Span("   "), *_facts(facts, glyphs)),
        (Span(" "), *_facts([(name, value) for name, value in options if value is not None], glyphs)),
    ]


def _facts(facts: Sequence[tuple[str, str]], glyphs: Glyphs) -> Spans:
    return joined(((Span(f"{name} ", "dim"), Span(_clean(value, glyphs))) for name, value in facts), gap="   ")


def _clean(text: str, glyphs: Glyphs) -> str:
    return clean(text, limit=200, ascii_only=glyphs.ascii_only)


def _error(detail: TaskDetail) -> str | None:
    """Return the last traceback, or what stands for it."""
    told = [run.traceback or run.error for run in sorted(detail.runs, key=lambda run: -run.run_id)]
    return next((text for text in told if text), None) or detail.task.error


class Sheets:
    """Writes a task's sheets, and each again only when what it shows has changed."""

    def __init__(self, glyphs: Glyphs) -> None:
        self._glyphs = glyphs
        self._written: dict[str, tuple[Any, list[Spans]]] = {}

    def lines(self, detail: TaskDetail) -> dict[str, list[Spans]]:
        """Return each sheet's lines."""
        task = detail.task
        error = _error(detail)
        return {
            "error": self._kept("error", error, lambda: self._text(error, "No error.", "bad")),
            "payload": self._kept("payload", task.payload, lambda: self._text(task.payload, "No payload.")),
            "result": self._kept("result", task.result, lambda: self._text(task.result, "No result yet.")),
            "checkpoint": self._kept(
                "checkpoint", task.checkpoint, lambda: self._text(task.checkpoint, "No checkpoint.")
            ),
            "logs": self._kept("logs", detail.logs, lambda: self._logs(detail.logs)),
        }

    def _kept(self, name: str, value: Any, write: Callable[[], list[Spans]]) -> list[Spans]:
        if name not in self._written or self._written[name][0] != value:
            self._written[name] = (value, write())
        return self._written[name][1]

    def _text(self, value: object, none: str, tone: Tone = "plain") -> list[Spans]:
        if value is None or value == {}:
            return [(Span(none, "dim"),)]
        return [(Span(line, tone),) for line in pretty(value, self._glyphs)]

    def _logs(self, logs: Sequence[LogItem]) -> list[Spans]:
        if not logs:
            return [(Span("Nothing logged. Write ctx.log(...) in the task.", "dim"),)]
        return [
            (
                Span(f"{clock(item.at)} ", "dim"),
                Span(f"{item.run_id} ", "faint"),
                Span(f"{clean(item.level, limit=8):<8} ", _LEVELS.get(item.level, "plain")),
                Span(clean(item.message, limit=4000, ascii_only=self._glyphs.ascii_only)),
            )
            for item in logs
        ]

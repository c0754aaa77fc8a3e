"""The sheets of a task's screen: its error, payload, result, checkpoint, logs and events as documents."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from treadle.wire.amounts import counted
from treadle.wire.runs import LogItem
from treadle.wire.sealed import ENCRYPTED, seal_of
from treadle.wire.tasks import RunItem, TaskEvent
from treadle_tui.core.draw.documents import Document, TextLines, shortened
from treadle_tui.core.draw.format import clock, local
from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.json_lines import JsonLines
from treadle_tui.core.draw.text import Span, Spans, Tone
from treadle_tui.core.state.detail import TaskDetail

SHEETS = ("error", "payload", "result", "checkpoint", "logs", "events")

_HOW = "The dashboard has no key for it: set TREADLE_ENCRYPTION_KEYS before you start the dashboard."

LEVEL_TONES: dict[str, Tone] = {"debug": "faint", "info": "dim", "warning": "warn", "error": "bad", "critical": "bad"}


class Sheets:
    """Builds a task's sheets, each again only if its data has changed."""

    def __init__(self, glyphs: Glyphs, fold_key: str = "enter") -> None:
        """`fold_key` is the key that unfolds a block."""
        self._glyphs = glyphs
        self._fold_key = fold_key
        self._written: dict[str, tuple[Any, Document]] = {}

    def write(self, detail: TaskDetail) -> dict[str, Document]:
        """Return each sheet's document: the same object as before if nothing has changed."""
        task = detail.task
        told = (task.error, [(run.run_id, run.error, run.traceback, run.left_out) for run in detail.runs])
        logs = (detail.logs, detail.logs_left_out)
        happened = (detail.events, detail.steps_left_out)
        return {
            "error": self._kept("error", told, lambda: self._errors(detail)),
            "payload": self._kept("payload", task.payload, lambda: self._json(task.payload, "No payload.")),
            "result": self._kept("result", task.result, lambda: self._json(task.result, _no_result(detail))),
            "checkpoint": self._kept(
                "checkpoint",
                task.checkpoint,
                lambda: self._json(task.checkpoint, "No checkpoint. Call ctx.save(...) in the task."),
            ),
            "logs": self._kept("logs", logs, lambda: _LogsSheet(detail.logs, detail.logs_left_out, self._glyphs)),
            "events": self._kept("events", happened, lambda: _events(detail, self._glyphs)),
        }

    def _kept(self, name: str, value: Any, write: Callable[[], Document]) -> Document:
        if name not in self._written or not _same(self._written[name][0], value):
            self._written[name] = (value, write())
        return self._written[name][1]

    def _json(self, value: Any, none: str) -> Document:
        if seal_of(value) is not None:
            return [(Span(f" {ENCRYPTED}", "dim"),), (Span(f" {_HOW}", "dim"),)]
        if value is None or value == {}:
            return [(Span(f" {none}", "dim"),)]
        return JsonLines(value, self._glyphs, self._fold_key)

    def _errors(self, detail: TaskDetail) -> Document:
        """Return the errors of all failed runs, the latest first."""
        lines: list[Spans] = []
        for run in sorted(detail.runs, key=lambda run: -run.run_id):
            text = run.traceback or run.error
            if text:
                lines += [*((), ()) * bool(lines), self._head(run), *self._traceback(text)]
            elif run.left_out:
                lines += [*((), ()) * bool(lines), self._head(run), _LEFT_OUT]
        if not lines and detail.task.error:
            lines = self._traceback(detail.task.error)
        if lines:
            lines += [line for line in _earlier_runs(detail) for line in ((), line)]
        return lines or [(Span(" No error.", "dim"),)]

    def _head(self, run: RunItem) -> Spans:
        who = self._glyphs.clean(run.worker_name or "")
        why = f": {run.reason.value}" if run.reason is not None else ""
        return (
            Span(f" run {run.run_id}  ", "title"),
            Span(f"{run.status}{why}", "bad"),
            Span(f"  {clock(run.ended_at)}  {who}", "dim"),
        )

    def _traceback(self, text: str) -> list[Spans]:
        document = TextLines(text.rstrip("\n"), self._glyphs, tone=_traceback_tone)
        return [(Span(" "), *document[index]) for index in range(min(len(document), 20_000))]


_LEFT_OUT: Spans = (
    Span(" left out, because the errors of all runs together are long; `treadle task ID` shows it", "warn"),
)


def _same(old: Any, new: Any) -> bool:
    try:
        return bool(old == new)
    except RecursionError:
        return False  # Too deep to compare: rebuild it, which costs no more than a screenful.


def _no_result(detail: TaskDetail) -> str:
    return "No result yet." if detail.task.completed_at is None else "No result."


def _traceback_tone(line: str) -> Tone:
    if line.startswith(("Traceback", "During handling", "The above exception")) or line.lstrip().startswith('File "'):
        return "dim"
    return "plain" if line.startswith(" ") else "bad"


class _LogsSheet:
    """A task's log, one line for each entry."""

    def __init__(self, logs: Sequence[LogItem], left_out: int, glyphs: Glyphs) -> None:
        self._logs = logs
        self._glyphs = glyphs
        self._head: list[Spans] = []
        self._shows_run = len({item.run_id for item in logs}) > 1
        if left_out:
            self._head.append((Span(f" {left_out:,} earlier lines are not shown", "warn"),))
        if not logs:
            self._head.append((Span(" Nothing logged. Call ctx.log(...) in the task.", "dim"),))

    def __len__(self) -> int:
        return len(self._head) + len(self._logs)

    def __getitem__(self, index: int, /) -> Spans:
        if index < len(self._head):
            return self._head[index]
        item = self._logs[index - len(self._head)]
        run = (Span(f"run {item.run_id} ", "faint"),) if self._shows_run else ()
        tone = LEVEL_TONES.get(item.level, "plain")
        return (
            Span(f" {clock(item.at)} ", "dim"),
            *run,
            Span(f"{self._glyphs.clean(item.level, limit=8):<8} ", tone),
            Span(shortened(item.message, self._glyphs), "plain" if tone in {"dim", "plain"} else tone),
        )


def _events(detail: TaskDetail, glyphs: Glyphs) -> list[Spans]:
    """Return what has happened to the task and what is scheduled, each with its full time."""
    if not detail.events:
        return [(Span(" The server sent no events.", "dim"),)]
    left_out = f" {counted(detail.steps_left_out, 'earlier step')} not shown"
    head: list[Spans] = [(Span(left_out, "warn"),)] if detail.steps_left_out else []
    return (
        _earlier_runs(detail)
        + head
        + [
            (
                Span(f" {local(event.at):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " ", "dim"),
                Span(f"{event.kind:<10}", _KINDS.get(event.status or event.kind, "bold")),
                Span("  ".join(_more(event, glyphs)), "dim"),
            )
            for event in detail.events
        ]
    )


def _earlier_runs(detail: TaskDetail) -> list[Spans]:
    left_out = detail.runs_left_out
    return [(Span(f" {counted(left_out, 'earlier run')} not shown", "warn"),)] if left_out else []


_KINDS: dict[str, Tone] = {"completed": "ok", "failed": "bad", "exception": "bad", "paused": "hold", "started": "run"}


def _more(event: TaskEvent, glyphs: Glyphs) -> Iterator[str]:
    yield f"run {event.run_id}" if event.run_id is not None else "     "
    who = event.worker_name or (event.worker_id or "")[-8:]
    error = next(iter((event.error or "").strip().splitlines()), "")
    for part in (event.step, event.status, event.reason and event.reason.value, who, error):
        if part:
            yield glyphs.clean(part, limit=300)

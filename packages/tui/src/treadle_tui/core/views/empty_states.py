"""The texts of empty panes: why they are empty, and what to type next."""

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from treadle.wire.status import Status
from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.text import Span, Spans, clean
from treadle_tui.core.state.events import EventLog
from treadle_tui.core.state.model import Model
from treadle_tui.core.state.queues import ALL_QUEUES
from treadle_tui.core.state.tables import Table
from treadle_tui.core.verbs.keymap import Keymap
from treadle_tui.core.views.task_query import TaskQuery

READ = "queue:read:"
"""The prefix of scopes that allow reading a room."""


def _say(text: str) -> Spans:
    return (Span(f"   {text}", "dim"),)


def _type(text: str) -> Spans:
    return (Span("     $ ", "faint"), Span(text, "accent"))


def _unavailable(model: Model, rows: str, source: Table[Any] | EventLog) -> list[Spans]:
    """Return why no row is shown although there may be some; nothing if there are none."""
    if source.refusal is not None:
        return [_say(f"The server does not show the {rows}: {clean(source.refusal)}")]
    if not source.ready:
        return [_say(_why_unknown(model))]
    return []


def _why_unknown(model: Model) -> str:
    """Return why nothing is known; a recording will not tell more later."""
    return "The recording has nothing about this so far." if model.is_recorded else "Waiting for the server."


def _unmatched(row: str, filter_text: str, glyphs: Glyphs, keymap: Keymap, *, every: str = "all") -> list[Spans]:
    """Return that no row matches the filter; nothing without a filter."""
    if not filter_text:
        return []
    return [
        _say(f"No {row} matches {glyphs.clean(filter_text)}"),
        _say(f"Press {keymap.cap('back')} to see {every}, {keymap.cap('filter')} to change the filter."),
    ]


def _reads_no_room(scopes: Sequence[str]) -> bool:
    """Return whether the token's scopes hide every queue: what a token can't read doesn't exist for it."""
    stars = (scope.removesuffix("*") for scope in scopes if scope.endswith("*"))
    return bool(scopes) and not (any(scope.startswith(READ) for scope in scopes) or any(map(READ.startswith, stars)))


def no_queues(model: Model) -> list[Spans]:
    """Return the text for when no job is registered, or none that the token can see."""
    if model.jobs.ready and _reads_no_room(model.link.scopes):
        return [_say("Your token can't see any queue: none of its scopes reads a room, as queue:read:lab would.")]
    return _unavailable(model, "queues", model.jobs) or [
        _say("No queues yet. Try the demo, or start a worker of your own:"),
        _type("treadle demo"),
        _type("treadle worker my_module"),
    ]


def coming(model: Model) -> str:
    """Return what the user is waiting for after rows were requested; without a server, nothing is loading."""
    return "Loading." if model.link.live and not model.is_recorded else _why_unknown(model)


def no_tasks(model: Model, query: TaskQuery, glyphs: Glyphs, keymap: Keymap) -> list[Spans]:
    """Return the text for when no task is shown."""
    table = model.tasks
    if table.refusal is not None:
        return [_say(f"The server does not show the tasks: {clean(table.refusal)}")]
    if query.want() is None:
        return [_say("The tasks of the highlighted queue will appear here.")]
    if not table.ready:
        return [_say(coming(model))]
    if unmatched := _unmatched("task", query.text, glyphs, keymap, every="all tasks of the queue"):
        return unmatched
    queues = model.queue_rows()
    if query.job != ALL_QUEUES and query.job not in queues:
        return [_say(f"This queue and its tasks are gone. Press {keymap.cap('queues')} for the queues.")]
    said, job = "This queue has no tasks", query.job
    if query.job == ALL_QUEUES:
        said, job = "No queue has any tasks", min(queues, default="")
    typed = f"treadle submit {quote(glyphs.clean(job))}"
    return [_say(f"{said}. Submit one:"), _type(typed)]


def no_logs(model: Model, text: str, keymap: Keymap) -> list[Spans]:
    """Return the text for when no log line is shown."""
    if model.logs.refusal is not None:
        return [_say(f"The server does not show the logs: {clean(model.logs.refusal, limit=200)}")]
    if not model.logs.ready:
        return [_say(coming(model))]
    if text:
        return [_say(f"No line contains {clean(text)}. Press {keymap.cap('back')} to see all lines.")]
    return [_say("Nothing logged. Call ctx.log(...) in a task.")]


def no_flow(model: Model, refusal: str | None, keymap: Keymap) -> list[Spans]:
    """Return the text for when no flow is shown."""
    if refusal is not None:
        return [
            _say(f"The server does not show this flow: {refusal}"),
            _say(f"Press {keymap.cap('back')} to go back, or list the flows:"),
            _type("treadle flows"),
        ]
    return [_say(coming(model))]


def no_workers(model: Model) -> list[Spans]:
    """Return the text for when no worker is registered."""
    return _unavailable(model, "workers", model.workers) or [
        _say("No workers. Start one:"),
        _type("treadle worker my_module --concurrency 8"),
    ]


HINTS: Mapping[str, tuple[str, str]] = {
    "targets": (
        "No target is held, and no task waits for one. Tasks of a target run one at a time, in order:",
        "treadle submit @global:tasks:shoot --target cam-1",
    ),
    "schedules": (
        "No schedules. Submit a task regularly, here or in code with @task(schedule=...):",
        "treadle schedules set nightly @global:tasks:clean --cron '0 3 * * *'",
    ),
    "limits": (
        "No limits. Cap tasks across all workers, here or in code with @task(limits=[...]):",
        "treadle limits set openai --concurrency 5 --rate 100/60",
    ),
}
"""The text for when there are none of these, and what to type next."""


def none_of(model: Model, rows: str, filter_text: str, glyphs: Glyphs, keymap: Keymap) -> list[Spans]:
    """Return the text for when there are none of the `rows`, a key of `HINTS`."""
    said, typed = HINTS[rows]
    unmatched = _unmatched(rows.removesuffix("s"), filter_text, glyphs, keymap)
    return _unavailable(model, rows, getattr(model, rows)) or unmatched or [_say(said), _type(typed)]


def no_failures(model: Model, filter_text: str, glyphs: Glyphs, keymap: Keymap) -> list[Spans]:
    """Return the text for when nothing has failed."""
    return (
        _unavailable(model, "failures", model.failures)
        or _unmatched("failure", filter_text, glyphs, keymap)
        or [
            _say(f"{glyphs.task[Status.COMPLETED]} Nothing has failed."),
            _say(f"Press {keymap.cap('queues')} for the queues."),
        ]
    )


def no_alerts(model: Model, glyphs: Glyphs, keymap: Keymap) -> list[Spans]:
    """Return the text for when nothing needs attention."""
    if not model.link.live:
        return [_say("Unknown without a connection.")]
    if not model.is_loaded:
        return [_say(_why_unknown(model))]
    return [
        _say(f"{glyphs.task[Status.COMPLETED]} Nothing needs you."),
        _say(
            "Starved queues, failures, late and lost workers, held targets, late schedules and stuck tasks appear here."
        ),
        _say(f"Press {keymap.cap('queues')} for the queues."),
    ]


def no_events(model: Model, filter_text: str, glyphs: Glyphs, keymap: Keymap) -> list[Spans]:
    """Return the text for when there are no events."""
    return (
        _unavailable(model, "events", model.events)
        or _unmatched("event", filter_text, glyphs, keymap)
        or [
            _say("Nothing has happened since you opened this screen. Try the demo:"),
            _type("treadle demo"),
        ]
    )

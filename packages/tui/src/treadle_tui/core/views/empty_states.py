"""What stands in empty panes: what is so, and what to type next."""

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
"""How a scope begins that reads a room."""


def _say(text: str) -> Spans:
    return (Span(f"   {text}", "dim"),)


def _type(text: str) -> Spans:
    return (Span("     $ ", "faint"), Span(text, "accent"))


def _unseen(model: Model, rows: str, source: Table[Any] | EventLog, *, shows: str = "shows") -> list[Spans]:
    """Return why no row is shown although there may be some; nothing where there is none."""
    if source.refusal is not None:
        return [_say(f"The server {shows} no {rows}: {clean(source.refusal)}")]
    if not source.ready:
        return [_say(_untold(model))]
    return []


def _untold(model: Model) -> str:
    """Return why nothing is known: of a recorded moment nobody will tell more."""
    return "The recording has nothing of it up to here." if model.is_recorded else "Waiting for the server."


def _unmatched(row: str, filter_text: str, glyphs: Glyphs, keymap: Keymap, *, every: str = "all") -> list[Spans]:
    """Return that a filter means no row; nothing without a filter."""
    if not filter_text:
        return []
    return [
        _say(f"No {row} matches {glyphs.clean(filter_text)}"),
        _say(f"Press {keymap.cap('back')} to see {every}, {keymap.cap('filter')} to change the filter."),
    ]


def _reads_no_room(scopes: Sequence[str]) -> bool:
    """Return whether a token sees no queue, however many there are: what it does not read is not there for it."""
    stars = (scope.removesuffix("*") for scope in scopes if scope.endswith("*"))
    return bool(scopes) and not (any(scope.startswith(READ) for scope in scopes) or any(map(READ.startswith, stars)))


def no_queues(model: Model) -> list[Spans]:
    """Return the words for when no job is registered, or none that the token sees."""
    if model.jobs.ready and _reads_no_room(model.link.scopes):
        return [_say("Your token sees no queue: none of its scopes reads a room, as queue:read:lab does.")]
    return _unseen(model, "queues", model.jobs) or [
        _say("No queue yet. See one at work, or start your own worker:"),
        _type("treadle demo"),
        _type("treadle worker my_module"),
    ]


def coming(model: Model) -> str:
    """Return what there is to wait for where rows were asked for: without a server nothing is under way."""
    return "Loading." if model.link.live and not model.is_recorded else _untold(model)


def no_tasks(model: Model, query: TaskQuery, glyphs: Glyphs, keymap: Keymap) -> list[Spans]:
    """Return the words for when no task is shown."""
    table = model.tasks
    if table.refusal is not None:
        return [_say(f"The server shows no tasks: {clean(table.refusal)}")]
    if query.want() is None:
        return [_say("The tasks of the highlighted queue will be here.")]
    if not table.ready:
        return [_say(coming(model))]
    if unmatched := _unmatched("task", query.text, glyphs, keymap, every="all of the queue"):
        return unmatched
    queues = model.queue_rows()
    if query.job != ALL_QUEUES and query.job not in queues:
        return [_say(f"This queue is gone, and its tasks with it. Press {keymap.cap('queues')} for the queues.")]
    said, job = "This queue has no tasks", query.job
    if query.job == ALL_QUEUES:
        said, job = "No queue has a task", min(queues, default="")
    typed = f"treadle submit {quote(glyphs.clean(job))}"
    return [_say(f"{said}. Put one in:"), _type(typed)]


def no_logs(model: Model, text: str, keymap: Keymap) -> list[Spans]:
    """Return the words for when no line is shown."""
    if model.logs.refusal is not None:
        return [_say(f"The server shows no logs: {clean(model.logs.refusal, limit=200)}")]
    if not model.logs.ready:
        return [_say(coming(model))]
    if text:
        return [_say(f"No line has {clean(text)} in it. Press {keymap.cap('back')} to see all of them.")]
    return [_say("Nothing logged. Write ctx.log(...) in a task.")]


def no_flow(model: Model, refusal: str | None, keymap: Keymap) -> list[Spans]:
    """Return the words for when no flow is shown."""
    if refusal is not None:
        return [
            _say(f"The server shows no such flow: {refusal}"),
            _say(f"Press {keymap.cap('back')} to go back; see which there are:"),
            _type("treadle flows"),
        ]
    return [_say(coming(model))]


def no_workers(model: Model) -> list[Spans]:
    """Return the words for when no worker is registered."""
    return _unseen(model, "workers", model.workers) or [
        _say("No worker. Start one:"),
        _type("treadle worker my_module --concurrency 8"),
    ]


HINTS: Mapping[str, tuple[str, str]] = {
    "targets": (
        "No target is held, and no task waits for one. Tasks of one target run one at a time, in order:",
        "treadle submit @global:tasks:shoot --target cam-1",
    ),
    "schedules": (
        "No schedule. Let a task be put in again and again, here or in code by @task(schedule=...):",
        "treadle schedules set nightly @global:tasks:clean --cron '0 3 * * *'",
    ),
    "limits": (
        "No limit. Cap tasks over all workers, here or in code by @task(limits=[...]):",
        "treadle limits set openai --concurrency 5 --rate 100/60",
    ),
}
"""What is so where there are none of these, and what to type next."""


def none_of(model: Model, rows: str, filter_text: str, glyphs: Glyphs, keymap: Keymap) -> list[Spans]:
    """Return the words for when there are none of what `HINTS` has something for."""
    said, typed = HINTS[rows]
    unmatched = _unmatched(rows.removesuffix("s"), filter_text, glyphs, keymap)
    return _unseen(model, rows, getattr(model, rows)) or unmatched or [_say(said), _type(typed)]


def no_failures(model: Model, filter_text: str, glyphs: Glyphs, keymap: Keymap) -> list[Spans]:
    """Return the words for when nothing has failed."""
    return (
        _unseen(model, "failures", model.failures)
        or _unmatched("failure", filter_text, glyphs, keymap)
        or [
            _say(f"{glyphs.task[Status.COMPLETED]} Nothing has failed."),
            _say(f"Press {keymap.cap('queues')} for the queues."),
        ]
    )


def no_alerts(model: Model, glyphs: Glyphs, keymap: Keymap) -> list[Spans]:
    """Return the words for when nothing needs attention."""
    if not model.link.live:
        return [_say("Not known without a connection.")]
    if not model.is_told:
        return [_say(_untold(model))]
    return [
        _say(f"{glyphs.task[Status.COMPLETED]} Nothing needs you."),
        _say("Starved queues, failures, late and lost workers, held targets, late schedules, stuck tasks: here."),
        _say(f"Press {keymap.cap('queues')} for the queues."),
    ]


def no_events(model: Model, filter_text: str, glyphs: Glyphs, keymap: Keymap) -> list[Spans]:
    """Return the words for when no event has come."""
    return (
        _unseen(model, "events", model.events, shows="tells")
        or _unmatched("event", filter_text, glyphs, keymap)
        or [
            _say("Nothing has happened since you came. Let something happen:"),
            _type("treadle demo"),
        ]
    )

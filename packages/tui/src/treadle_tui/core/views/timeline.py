"""A task's life as a vertical timeline: what happened when, and how long it took in between."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from treadle.wire.amounts import counted
from treadle.wire.status import LEASED, REQUEUED, RETRIED, Outcome, Reason, Status
from treadle.wire.tasks import RunItem, TaskEvent, TaskItem
from treadle_tui.core.draw.format import bar, clock, lasted, since, task_state
from treadle_tui.core.draw.glyphs import TASK_TONES, Glyphs
from treadle_tui.core.draw.text import Span, Spans, Tone, fit
from treadle_tui.core.state.detail import TaskDetail

BAR = 12
"""The width of the longest stretch's bar, in cells; the others are drawn in proportion."""

SOON = 0.05
"""A wait of up to this many seconds gets no line of its own."""

Doing: TypeAlias = Literal["wait", "back-off", "claim", "run", "pause"]

_TONES: dict[Doing, Tone] = {"wait": "faint", "back-off": "warn", "claim": "dim", "run": "run", "pause": "hold"}


@dataclass(frozen=True, slots=True)
class Moment:
    """An event at a point in time."""

    at: datetime
    glyph: str
    text: str
    tone: Tone
    detail: str = ""
    """Details, on a separate line."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A period between two moments."""

    doing: Doing
    text: str
    seconds: float


def timeline(detail: TaskDetail, now: datetime, glyphs: Glyphs, cells: int = 60) -> list[Spans]:
    """Return the task's life from its creation to now, with a line for each moment and each stretch in between."""
    story = list(_story(detail, now, glyphs))
    longest = max((part.seconds for part in story if isinstance(part, Stretch)), default=0.0)
    lines: list[Spans] = []
    for part in story:
        if isinstance(part, Moment):
            lines.append((Span(f"{clock(part.at)} ", "dim"), Span(f"{part.glyph} {part.text}", part.tone)))
            if part.detail:
                lines.append((*_rail(glyphs), Span(part.detail, "bad")))
        else:
            lines.append(_stretch(part, longest, glyphs, cells))
    return lines


def _rail(glyphs: Glyphs) -> Spans:
    return (Span(f"{'':>8} {glyphs.rail} ", "faint"),)


def _stretch(part: Stretch, longest: float, glyphs: Glyphs, cells: int) -> Spans:
    words = Span(f"{part.text} {lasted(part.seconds)}", "dim")
    room = min(BAR, cells - 34)
    if room < 3 or longest <= 0:
        return (*_rail(glyphs), words)
    # Leave out the empty part of the bar: it has no meaning when stretches are compared.
    filled = bar(part.seconds / longest, room, glyphs, tone=_TONES[part.doing])
    solid = tuple(span for span in filled if not set(span.text) <= {glyphs.empty})
    return (*_rail(glyphs), *fit((words,), 22), *solid)


def _story(detail: TaskDetail, now: datetime, glyphs: Glyphs) -> Iterator[Moment | Stretch]:
    task = detail.task
    who = f" by {glyphs.clean(task.submitter, limit=40)}" if task.submitter else ""
    yield Moment(task.created_at, glyphs.ring, f"created{who}", "dim")
    runs = sorted(detail.runs, key=lambda run: run.run_id)
    steps = defaultdict[int | None, list[TaskEvent]](list)
    for event in detail.events:
        if event.kind == "step":
            steps[event.run_id].append(event)
    before, last, received = task.created_at, None, list[Moment]()
    if detail.runs_left_out:
        yield _earlier(detail.runs_left_out, "run", runs[0].claimed_at, glyphs)
    steps_left_out = max(0, task.steps - sum(len(steps[run.run_id]) for run in runs))
    retries = 0
    for run in runs:
        retries += last is not None and last.reason in RETRIED
        had_failed = retries > task.max_retries
        retries = 0 if had_failed else retries
        if last is not None or not detail.runs_left_out:
            yield _between(last, before, run.claimed_at, had_failed=had_failed)
        yield from received
        kept = steps[run.run_id]
        done = [event for event in kept if run.ended_at is None or event.at <= run.ended_at]
        # A run ends as suspended at a receive whose message had not come.
        asks = done[-1:] if run.status == Outcome.SUSPENDED and len(done) == len(kept) else []
        earlier = [_earlier(steps_left_out, "step", kept[0].at, glyphs)] if steps_left_out and kept else []
        # They came before the first step that is known.
        steps_left_out = 0 if kept else steps_left_out
        yield from _run(run, now, glyphs, [*earlier, *(_step(event, glyphs, waits=event in asks) for event in done)])
        # A message arrives while no run is open: the code that asked for it had suspended itself.
        received = [_step(event, glyphs) for event in kept[len(done) :]]
        before, last = run.ended_at or run.started_at or run.claimed_at, run
    yield from received
    if task.status not in LEASED:
        yield from _after(task, last, before, now, glyphs)
    yield Moment(now, glyphs.turn, "now", "faint")


def _between(last: RunItem | None, before: datetime, claimed_at: datetime, *, had_failed: bool) -> Stretch:
    """Return the time between two runs. How it was split between back-off, pause and queue is only known for the last.

    `had_failed` means that the task was out of retries and somebody had it run again.
    """
    seconds = since(before, claimed_at) or 0.0
    if last is None:
        return Stretch("wait", "waited", seconds)
    if last.status == Outcome.PAUSED:
        return Stretch("pause", "paused", seconds)
    if last.status == Outcome.SUSPENDED:
        return Stretch("wait", "asleep", seconds)
    if last.reason in RETRIED:
        return Stretch("wait", "failed", seconds) if had_failed else Stretch("back-off", "back-off", seconds)
    return Stretch("wait", "requeued" if last.reason in REQUEUED else "waited", seconds)


def _earlier(count: int, what: str, at: datetime, glyphs: Glyphs) -> Moment:
    return Moment(at, glyphs.ellipsis, f"{counted(count, f'earlier {what}')} not shown", "warn")


def _step(event: TaskEvent, glyphs: Glyphs, *, waits: bool = False) -> Moment:
    """Return a step by its name, and a receive by the name of the message that came, or that it `waits` for."""
    name = glyphs.clean(event.step or "", limit=80)
    if event.status == "receive":
        name = f"waits for {name}" if waits else f"message {name}"
    return Moment(event.at, glyphs.arrow, name, "dim")


def _run(run: RunItem, now: datetime, glyphs: Glyphs, steps: list[Moment]) -> Iterator[Moment | Stretch]:
    """Yield the moments and stretches of a run, with its kept steps."""
    who = glyphs.clean(run.worker_name or (run.worker_id[-8:] if run.worker_id else "the server"))
    if run.started_at is None:
        yield Moment(run.claimed_at, glyphs.task[Status.CLAIMED], f"run {run.run_id} claimed by {who}", "run")
    else:
        wait = since(run.claimed_at, run.started_at) or 0.0
        if wait > SOON:
            yield Moment(run.claimed_at, glyphs.task[Status.CLAIMED], f"claimed by {who}", "dim")
            yield Stretch("claim", "to start", wait)
        yield Moment(run.started_at, glyphs.task[Status.RUNNING], f"run {run.run_id} on {who}", "run")
    yield from steps
    begun = run.started_at or run.claimed_at
    if run.ended_at is None:
        yield Stretch("run", "runs" if run.started_at else "held", since(begun, now) or 0.0)
        return
    yield Stretch("run", "ran" if run.started_at else "held", since(begun, run.ended_at) or 0.0)
    yield _end(run, glyphs)


def _end(run: RunItem, glyphs: Glyphs) -> Moment:
    assert run.ended_at is not None
    status = _OUTCOMES[str(run.status)]
    why = f": {run.reason.value}" if run.reason is not None and run.reason.value != str(run.status) else ""
    first = next(iter((run.error or "").strip().splitlines()), "")
    error = glyphs.clean(first, limit=200)
    return Moment(run.ended_at, glyphs.task[status], f"{run.status}{why}", TASK_TONES[status], error)


def _after(
    task: TaskItem, last: RunItem | None, before: datetime, now: datetime, glyphs: Glyphs
) -> Iterator[Moment | Stretch]:
    """Yield what came after the last run, or without any run."""
    if task.completed_at is not None:
        if last is None or last.ended_at is None or task.settled or str(last.status) != task.status.value:
            if last is None:
                yield Stretch("wait", "waited", since(before, task.completed_at) or 0.0)
            yield Moment(task.completed_at, glyphs.task[task.status], _ending(task), TASK_TONES[task.status])
        return
    doing: Doing = "pause" if task.status is Status.PAUSED else "back-off" if task.next_retry_at else "wait"
    words = {"pause": "paused", "back-off": "back-off", "wait": "waits"}[doing]
    if task.status is Status.SCHEDULED and task.reason is Reason.SUSPENDED:
        words = "asleep"
    yield Stretch(doing, words, since(before, now) or 0.0)
    state = task_state(task, now, glyphs)
    place = f", position {task.queue_position:,}" if task.queue_position is not None else ""
    yield Moment(now, state.text[0], f"{state.text[2:]}{place}", state.tone)


def _ending(task: TaskItem) -> str:
    why = f": {task.reason.value}" if task.reason is not None and task.reason.value != task.status.value else ""
    return f"{task.status.value}{', settled by hand' if task.settled else ''}{why}"


_OUTCOMES: dict[str, Status] = {
    Outcome.COMPLETED: Status.COMPLETED,
    Outcome.FAILED: Status.FAILED,
    Outcome.EXCEPTION: Status.FAILED,
    Outcome.PAUSED: Status.PAUSED,
    Outcome.CANCELLED: Status.CANCELLED,
    Outcome.RETURNED: Status.PENDING,
    Outcome.SUSPENDED: Status.SCHEDULED,
    "claimed": Status.CLAIMED,
    "running": Status.RUNNING,
}

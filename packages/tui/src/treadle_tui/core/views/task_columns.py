"""The columns and sort orders of the task list."""

from treadle.wire.filters import Order
from treadle.wire.sealed import ENCRYPTED, seal_of
from treadle.wire.status import LEASED, TERMINAL, WAITING, Status
from treadle.wire.tags import shown
from treadle.wire.tasks import TaskItem
from treadle_tui.core.draw.columns import NOTHING, CellContext, Column, named, named_job
from treadle_tui.core.draw.format import age, bar, lasted, number, one_line, short_id, since, task_state
from treadle_tui.core.draw.text import Span, Spans

ORDERS: tuple[Order, ...] = ("position", "newest", "oldest", "updated")
"""The sort orders of the task list, the default first."""

LARGE = "large: {} shows it"
"""Shown for a payload that lists leave out."""


def _duration(seconds: float | None) -> Spans:
    return NOTHING if seconds is None else (Span(age(seconds)),)


def _position(task: TaskItem, context: CellContext) -> Spans:
    return NOTHING if task.queue_position is None else (Span(number(task.queue_position, cells=7), "bold"),)


def tries(task: TaskItem) -> str:
    """Return how many attempts were made, including a current one, out of the most possible."""
    begun = task.run_id is not None and task.status not in WAITING
    return f"{task.retry_count + begun}/{task.max_retries + 1}"


def _tries(task: TaskItem, context: CellContext) -> Spans:
    return (Span(tries(task), "warn" if task.retry_count else "plain"),)


def estimated_wait(task: TaskItem, context: CellContext) -> float | None:
    """Return in how many seconds a task is likely to start: when it is due, or by its queue's forecast."""
    if task.status is Status.SCHEDULED:
        return None if task.due is None else max(0.0, (task.due - context.now).total_seconds())
    return context.wait(task) if context.known else None


def _eta(task: TaskItem, context: CellContext) -> Spans:
    wait = estimated_wait(task, context)
    return NOTHING if wait is None else (Span(f"~{age(wait)}", "dim"),)


def _running_for(task: TaskItem, context: CellContext) -> Spans:
    if not _has_run(task):
        return NOTHING
    if task.completed_at is not None:
        return (Span(lasted(since(task.started_at, task.completed_at))),)
    return _duration(since(task.started_at, context.now))


def _has_run(task: TaskItem) -> bool:
    """Return whether a run is open, or was when the task ended; a row doesn't have the end of an earlier run."""
    return task.started_at is not None and task.status in LEASED | TERMINAL


def _worker(task: TaskItem, context: CellContext) -> Spans:
    name = context.worker_name(task.worker_id) if _has_worker(task) else None
    return named(name, context)


def _has_worker(task: TaskItem) -> bool:
    """Return whether a worker has the task, or had it when it ended; a waiting task has none."""
    return task.worker_id is not None and task.status in LEASED | TERMINAL


def _ended(task: TaskItem, context: CellContext) -> Spans:
    return _duration(since(task.completed_at, context.now) if task.status in TERMINAL else None)


def _target(task: TaskItem, context: CellContext) -> Spans:
    spans = named(task.target, context)
    return (*spans, Span(" held", "hold")) if task.blocked_by else spans


def progress_of(task: TaskItem) -> tuple[float | None, str]:
    """Return the task's progress: its share, from 0 to 1, and its message."""
    value = task.progress
    if isinstance(value, dict):
        share, message = value.get("share"), value.get("message")
        return (float(share) if isinstance(share, int | float) else None, str(message or ""))
    return (float(value), "") if isinstance(value, int | float) else (None, "")


def _progress(task: TaskItem, context: CellContext) -> Spans:
    share, message = progress_of(task)
    if share is None or task.status not in LEASED | {Status.PAUSED}:
        return named(message, context) if message and task.status in LEASED else ()
    return (*bar(share, 8, context.glyphs, tone="run"), Span(f"{min(1.0, max(0.0, share)):>5.0%}"))


def _payload(task: TaskItem, context: CellContext) -> Spans:
    if task.status is Status.FAILED and task.error:
        first = next(iter(task.error.strip().splitlines()), "")
        return (Span(context.glyphs.clean(first, limit=300), "bad"),)
    if task.left_out is not None and "payload" in task.left_out:
        return (Span(LARGE.format(context.open_key), "faint"),)
    if seal_of(task.payload) is not None:
        return (Span(ENCRYPTED, "dim"),)
    return (Span(one_line(task.payload, context.glyphs, limit=300), "dim"),)


def _state(task: TaskItem, context: CellContext) -> Spans:
    return (task_state(task, context.now, context.glyphs),)


def _tags(task: TaskItem, context: CellContext) -> Spans:
    tags = ",".join(shown(task.tags))
    return (Span(context.glyphs.clean(tags, limit=100), "dim"),)


def _has_submitter(task: TaskItem) -> bool:
    return bool(task.submitter)


def _has_priority(task: TaskItem) -> bool:
    return task.priority != 0


def _has_key(task: TaskItem) -> bool:
    return bool(task.unique_key)


_JOB: Column[TaskItem] = Column(
    "JOB",
    16,
    lambda task, context: named_job(task.job_name, context),
    keep_end=True,
    stem=lambda _: True,
    rank=1,
    most=40,
)

COLUMNS: tuple[Column[TaskItem], ...] = (
    Column("POS", 7, _position, right=True, fills=lambda task: task.queue_position is not None, names=True),
    Column("ID", 8, lambda task, _: (Span(short_id(task.id), "accent"),), names=True),
    Column("STATE", 11, _state, most=16),
    Column("TRY", 5, _tries, right=True, rank=8),
    Column("AGE", 5, lambda task, context: _duration(since(task.created_at, context.now)), right=True, rank=2),
    Column("ETA", 6, _eta, right=True, rank=6, fills=lambda task: task.status in WAITING),
    Column("ENDED", 5, _ended, right=True, rank=4, fills=lambda task: task.status in TERMINAL),
    Column("RUN", 5, _running_for, right=True, rank=5, fills=_has_run),
    Column("WORKER", 6, _worker, keep_end=True, rank=7, most=20, fills=_has_worker),
    Column("TARGET", 8, _target, rank=9, most=20, fills=lambda task: task.target is not None),
    Column("PROGRESS", 13, _progress, rank=10, most=20, fills=lambda task: task.progress is not None),
    Column("TAGS", 12, _tags, rank=11, most=24, fills=lambda task: bool(task.tags)),
    Column("PAYLOAD", 16, _payload, rank=3, most=500),
    Column("BY", 4, lambda task, context: named(task.submitter, context), most=24, fills=_has_submitter, extra=True),
    Column(
        "PRIO", 4, lambda task, _: (Span(str(task.priority)),), right=True, most=11, fills=_has_priority, extra=True
    ),
    Column("KEY", 4, lambda task, context: named(task.unique_key, context), most=24, fills=_has_key, extra=True),
)
"""The columns of the task list, left to right; in a narrow pane TAGS is dropped first, then PROGRESS, TARGET, TRY …
Those after PAYLOAD are shown where it leaves room."""


OF_THE_OPEN = frozenset({"POS", "AGE", "ETA", "PROGRESS"})
"""Columns that say nothing about ended tasks, for which when, where and how long they ran matters instead."""

WIDE = frozenset({"POS", "ID", "STATE", "JOB", "PAYLOAD"})
"""The columns that remain next to a payload shown at full length."""


def columns(*, several_jobs: bool, wide: bool = False, ended: bool = False) -> tuple[Column[TaskItem], ...]:
    """Return the columns: with the job for a list of several jobs, and with room for the payload if `wide`.

    `ended` means that the list has only ended tasks.
    """
    chosen = (*COLUMNS[:3], _JOB, *COLUMNS[3:]) if several_jobs else COLUMNS
    left_out = OF_THE_OPEN if ended else frozenset()
    return tuple(column for column in chosen if column.title not in left_out and (column.title in WIDE or not wide))

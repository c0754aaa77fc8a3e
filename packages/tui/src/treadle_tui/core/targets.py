"""Targets as the dashboard shows them: who holds each, why, since when, and who waits for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from treadle.wire.targets import TargetHolder, TargetItem
from treadle.wire.tasks import TaskFilter
from treadle.wire.transitions import ADMITS
from treadle_tui.core.columns import Column, Context
from treadle_tui.core.format import age, number, short_id, since
from treadle_tui.core.glyphs import TARGET_TONES, TargetState
from treadle_tui.core.text import Span, Spans, clean

_NONE: Spans = (Span("-", "faint"),)


@dataclass(frozen=True, slots=True)
class TargetRow:
    """A target's line."""

    item: TargetItem

    @property
    def holder(self) -> TargetHolder | None:
        """What holds it first: a live run before what only keeps it."""
        return next(iter(self.item.holders), None)

    @property
    def state(self) -> TargetState:
        """Why it is held, or `free`."""
        return self.item.cause if self.item.held and self.item.cause is not None else "free"

    @property
    def task_id(self) -> str | None:
        """The task to look at: the holder, or whoever is next."""
        return self.holder.task_id if self.holder is not None else self.item.next_task_id


def target_rows(items: Iterable[TargetItem], wanted: TaskFilter) -> list[TargetRow]:
    """Return the targets that a filter means: those waited for first, of these the longest held."""
    rows = [TargetRow(item) for item in items]
    return sorted((row for row in rows if means(wanted, row.item)), key=_urgency)


def _urgency(row: TargetRow) -> tuple[bool, bool, float, str]:
    held_since = row.item.since.timestamp() if row.item.since is not None else float("inf")
    return not row.item.waiting, not row.item.held, held_since, row.item.name


def means(wanted: TaskFilter, item: TargetItem) -> bool:
    """Return whether a filter means a target: by its name and room, or by the tasks that hold it.

    Tags are the tasks' own and not known here, so a filter with one means no target.
    """
    if wanted.tag is not None:
        return False
    if wanted.target not in {None, item.name} or wanted.room not in {None, item.room_id}:
        return False
    asks_holder = wanted.status is not None or wanted.job or wanted.worker or wanted.id
    if asks_holder and not any(_means_holder(wanted, holder) for holder in item.holders):
        return False
    text = (wanted.text or "").casefold()
    said = [item.name, item.room_id, *(holder.job_name for holder in item.holders)]
    said += [holder.task_id for holder in item.holders]
    return any(text in part.casefold() for part in said)


def _means_holder(wanted: TaskFilter, holder: TargetHolder) -> bool:
    return (
        (wanted.status is None or holder.status in wanted.status)
        and wanted.job in {None, holder.job_name}
        and wanted.worker in {None, holder.worker_id}
        and (wanted.id is None or holder.task_id.startswith(wanted.id))
    )


def _name(row: TargetRow, context: Context) -> Spans:
    ascii_only = context.glyphs.ascii_only
    room, name = (clean(part, ascii_only=ascii_only) for part in (row.item.room_id, row.item.name))
    return (Span(f"{room}:", "dim"), Span(name, "bold"))


def _state(row: TargetRow, context: Context) -> Spans:
    return (Span(f"{context.glyphs.target[row.state]} {row.state}", TARGET_TONES[row.state]),)


def _held_for(row: TargetRow, context: Context) -> Spans:
    return (Span(age(since(row.item.since, context.now))),) if row.item.held else _NONE


def _ends(row: TargetRow, context: Context) -> Spans:
    """Tell when the hold ends by itself; a paused or failed task keeps it until someone acts."""
    if not row.item.held:
        return _NONE
    if row.item.until is None:
        return (Span("by hand", "hold"),) if row.state in ADMITS["resolve"] else _NONE
    return (Span(f"<{age(since(context.now, row.item.until))}", "dim"),)


def _waiting(row: TargetRow, _: Context) -> Spans:
    return (Span(number(row.item.waiting, cells=6), "bold" if row.item.waiting else "faint"),)


def _holder(row: TargetRow, _: Context) -> Spans:
    if row.holder is None:
        return _NONE
    more = len(row.item.holders) - 1
    return (Span(short_id(row.holder.task_id), "accent"), *((Span(f" +{more}", "dim"),) if more else ()))


def _job(row: TargetRow, context: Context) -> Spans:
    if row.holder is None:
        return _NONE
    return (Span(clean(row.holder.job_name, ascii_only=context.glyphs.ascii_only)),)


def _worker(row: TargetRow, context: Context) -> Spans:
    name = context.worker_name(row.holder.worker_id) if row.holder is not None else None
    return _NONE if not name else (Span(clean(name, ascii_only=context.glyphs.ascii_only)),)


def _next(row: TargetRow, _: Context) -> Spans:
    return _NONE if row.item.next_task_id is None else (Span(short_id(row.item.next_task_id), "accent"),)


TARGET_COLUMNS: tuple[Column[TargetRow], ...] = (
    Column("TARGET", 18, _name, keep_end=True, most=48),
    Column("STATE", 10, _state),
    Column("FOR", 5, _held_for, right=True),
    Column("ENDS", 7, _ends, right=True, rank=3),
    Column("HOLDER", 11, _holder),
    Column("WAIT", 6, _waiting, right=True),
    Column("NEXT", 8, _next, rank=1),
    Column("WORKER", 10, _worker, keep_end=True, rank=4, most=24),
    Column("HOLDER'S JOB", 18, _job, keep_end=True, rank=2, most=64),
)
"""The targets' pane from left to right; below some width WORKER falls away first, then ENDS, the job, NEXT."""


def held_words(row: TargetRow, now: datetime) -> str:
    """Return why a target is held, in words for the attention list."""
    return f"{row.state} {age(since(row.item.since, now))}, {number(row.item.waiting)} wait"

"""Targets: who holds each, why and since when, and which ones a filter matches."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from treadle.wire.filters import TaskFilter
from treadle.wire.ids import begins
from treadle.wire.targets import TargetHolder, TargetItem
from treadle_tui.core.draw.format import age, number, since
from treadle_tui.core.draw.glyphs import TargetState
from treadle_tui.core.state.meaning import can_mean
from treadle_tui.core.state.tables import ItemRow


@dataclass(frozen=True, slots=True)
class TargetRow(ItemRow[TargetItem]):
    """A target's row."""

    @property
    def holder(self) -> TargetHolder | None:
        """The most important holder: a live run comes before a task that merely keeps the target."""
        return next(iter(self.item.holders), None)

    @property
    def state(self) -> TargetState:
        """Why it is held, or `free`."""
        return self.item.cause if self.item.held and self.item.cause is not None else "free"

    @property
    def task_id(self) -> str | None:
        """The task to open: the holder, or the next in line."""
        return self.holder.task_id if self.holder is not None else self.item.next_task_id


def target_rows(items: Iterable[TargetItem], wanted: TaskFilter) -> list[TargetRow]:
    """Return the targets that match a filter: those with waiting tasks first, then by how long they have been held."""
    rows = [TargetRow(item) for item in items]
    return sorted((row for row in rows if means(wanted, row.item)), key=_urgency)


def _urgency(row: TargetRow) -> tuple[bool, bool, float, str]:
    held_since = row.item.since.timestamp() if row.item.since is not None else float("inf")
    return not row.item.waiting, not row.item.held, held_since, row.item.name


KNOWN = {"room", "status", "job", "target", "worker", "id", "text"}
"""The fields of a filter that a target can match."""


def means(wanted: TaskFilter, item: TargetItem) -> bool:
    """Return whether a target matches a filter, by its name and room, or by the tasks that hold it.

    Everything else, such as tags or times, is only known for tasks, so a filter with such a part matches no target.
    """
    asks_holder = wanted.status is not None or wanted.job or wanted.worker or wanted.id
    said = [item.name, item.room_id, *(word for holder in item.holders for word in (holder.job_name, holder.task_id))]
    return (
        can_mean(wanted, KNOWN, said)
        and wanted.target in {None, item.name}
        and wanted.room in {None, item.room_id}
        and (not asks_holder or any(_means_holder(wanted, holder) for holder in item.holders))
    )


def _means_holder(wanted: TaskFilter, holder: TargetHolder) -> bool:
    return (
        (wanted.status is None or holder.status in wanted.status)
        and wanted.job in {None, holder.job_name}
        and wanted.worker in {None, holder.worker_id}
        and (wanted.id is None or begins(holder.task_id, wanted.id))
    )


def held_words(row: TargetRow, now: datetime) -> str:
    """Return why a target is held, for the attention list."""
    return f"{row.state} {age(since(row.item.since, now))}, {number(row.item.waiting)} wait"

"""Schedules: whether each is late, paused, has an open task or skips ticks, and which ones a filter matches."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from treadle.wire.filters import TaskFilter
from treadle.wire.ids import begins
from treadle.wire.schedules import ScheduleItem
from treadle.wire.status import OPEN
from treadle.wire.tags import has
from treadle_tui.core.draw.format import age, since
from treadle_tui.core.draw.glyphs import ScheduleState
from treadle_tui.core.state.meaning import can_mean
from treadle_tui.core.state.tables import ItemRow

LATE_SECONDS = 60.0
"""How long a tick may be overdue without a task before an alert is raised."""


@dataclass(frozen=True, slots=True)
class ScheduleRow(ItemRow[ScheduleItem]):
    """A schedule's row."""

    @property
    def has_open_task(self) -> bool:
        """Whether its last task is still open; no other task is made before it ends."""
        return self.item.last_status in OPEN

    def overdue(self, now: datetime) -> float:
        """Return by how many seconds its next tick is overdue."""
        return max(0.0, since(self.item.next_at, now) or 0.0)

    def state(self, now: datetime) -> ScheduleState:
        """Return whether it is paused, late, has an open task, skips ticks, or just waits for the next tick."""
        if self.item.paused:
            return "paused"
        if self.overdue(now) >= LATE_SECONDS:
            return "late"
        if self.has_open_task:
            return "open"
        return "skips" if self.item.skips else "waits"


def schedule_rows(items: Iterable[ScheduleItem], wanted: TaskFilter) -> list[ScheduleRow]:
    """Return the schedules that match a filter, by their next tick, with paused ones last."""
    rows = [ScheduleRow(item) for item in items if means(wanted, item)]
    return sorted(rows, key=_urgency)


def _urgency(row: ScheduleRow) -> tuple[bool, float, str, str]:
    next_at = row.item.next_at
    return next_at is None, 0.0 if next_at is None else next_at.timestamp(), row.item.name, row.item.id


KNOWN = {"room", "status", "job", "target", "tag", "id", "text"}
"""The fields of a filter that a schedule can match."""


def means(wanted: TaskFilter, item: ScheduleItem) -> bool:
    """Return whether a schedule matches a filter, by its name, room and job, or by its last task.

    A filter on something that only tasks have, such as a worker, matches no schedule.
    """
    target = item.options.get("target")
    said = [item.name, item.room_id, item.job_name, item.cron or "", item.last_task_id or ""]
    return (
        can_mean(wanted, KNOWN, said)
        and wanted.room in {None, item.room_id}
        and wanted.job in {None, item.job_name}
        and wanted.target in {None, target}
        and (wanted.status is None or item.last_status in wanted.status)
        and (wanted.id is None or begins(item.last_task_id or "", wanted.id))
        and all(has(item.options.get("tags"), tag) for tag in wanted.tag or ())
    )


def late_words(row: ScheduleRow, now: datetime) -> str:
    """Return why a late schedule needs attention, for the attention list."""
    status = row.item.last_status
    nothing = row.item.stands_still or "no task was submitted"
    why = f"its last task is {status.value}" if status is not None and row.has_open_task else nothing
    return f"due {age(row.overdue(now))} ago, {why}"

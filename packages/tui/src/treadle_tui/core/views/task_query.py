"""The query of the task list: the highlighted queue, a filter and a sort order."""

from collections.abc import Callable
from datetime import UTC, datetime

from treadle import filters
from treadle.wire.filters import Order, TaskFilter
from treadle.wire.frames import Window
from treadle.wire.status import TERMINAL
from treadle_tui.core.live.subscriptions import Want
from treadle_tui.core.state.queues import ALL_QUEUES
from treadle_tui.core.views.task_columns import ORDERS
from treadle_tui.core.views.windows import WINDOW, Part, anchored, part_around

REEVALUATE_SECONDS = 10.0
"""How often a filter that is relative to the current time is evaluated again."""


class TaskQuery:
    """The query that the task list shows."""

    def __init__(
        self, *, room: str | None = None, text: str = "", now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.job: str | None = None
        """The highlighted queue's job."""
        self.text = ""
        """The filter as typed."""
        self.order: Order = ORDERS[0]
        self._room = room
        self._now = now
        self._parsed_at: datetime | None = None
        """When a filter relative to the current time was last evaluated; None for any other filter."""
        self._filter = TaskFilter()
        self._window = Window(limit=WINDOW)
        self._part = Part(0, WINDOW)
        self.narrow(text)
        self.begins_everywhere = bool(text.strip())
        """Whether it was created with a filter, which then applies to every queue, as on the command line."""

    def select(self, job: str | None) -> bool:
        """Select another queue; return whether that changes the list."""
        if job == self.job:
            return False
        changes = not self._names_job()
        self.job = job
        if changes:
            self._window = self._fresh()
        return changes

    def narrow(self, text: str) -> None:
        """Filter by `text`. Raises `FilterError`, without changing anything, if the filter is invalid."""
        parsed = filters.parse(text, now=self._now())
        self.text, self._filter = text, parsed
        self._parsed_at = self._now() if filters.is_relative(text) else None
        self._window = self._fresh()

    def reevaluate(self) -> bool:
        """Evaluate a filter relative to the current time again, if it is due; return whether that changes the list."""
        now = self._now()
        if self._parsed_at is None or (now - self._parsed_at).total_seconds() < REEVALUATE_SECONDS:
            return False
        self._filter, self._parsed_at = filters.parse(self.text, now=now), now
        self._window = self._window.model_copy(update={"filter": self._chosen()})
        return True

    def take_order(self, order: Order) -> None:
        """Sort the tasks in this order."""
        self.order = order
        self._window = self._fresh()

    def look(self, first: int, height: int, total: int, key_at: Callable[[int], str | None]) -> bool:
        """Note which lines are visible and what is loaded; return whether a different window is needed."""
        part = part_around(first, height, total, self._part)
        if part == self._part:
            return False
        self._part = part
        self._window = anchored(part, self._window, key_at)
        return True

    def arrived(self, offset: int, first_key: str | None) -> bool:
        """Note where the loaded window is in the list; return whether to anchor it at its first row from now on.

        Otherwise, after a jump, the server would count from the head of the list each time the window changes.
        """
        self._part = Part(offset, self._part.limit)
        if self._window.offset == 0 or first_key is None:
            return False
        self._window = self._window.model_copy(update={"offset": 0, "first": first_key})
        return True

    @property
    def several_jobs(self) -> bool:
        """Whether the list may contain tasks of more than one job."""
        return self._window.filter.job is None

    @property
    def ended(self) -> bool:
        """Whether the list can only contain ended tasks."""
        status = self._window.filter.status
        return status is not None and bool(status) and TERMINAL.issuperset(status)

    def want(self) -> Want | None:
        """Return what to subscribe to; None if no queue is selected."""
        if self.job is None and not self._names_job():
            return None
        return Want("tasks", window=self._window, room=self._room)

    @property
    def filter(self) -> TaskFilter:
        """The filter for the tasks of the list."""
        if self._room is None or self._window.filter.room is not None:
            return self._window.filter
        return self._window.filter.model_copy(update={"room": self._room})

    @property
    def asked(self) -> tuple[str, str | None]:
        """The filter text and the job, which stay the same when a relative filter is evaluated again."""
        return self.text, self.job

    def _names_job(self) -> bool:
        return "job" in self._filter.model_fields_set or self._filter.worker is not None

    def _fresh(self) -> Window:
        self._part = Part(0, WINDOW)
        return Window(filter=self._chosen(), order=self.order, limit=WINDOW)

    def _chosen(self) -> TaskFilter:
        job = self._filter.job if self._names_job() else self.job
        return self._filter.model_copy(update={"job": None if job == ALL_QUEUES else job})

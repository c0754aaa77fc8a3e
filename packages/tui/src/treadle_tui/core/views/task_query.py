"""Which tasks the list shows: the highlighted queue's, narrowed by the filter, in one of the orders."""

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

MOVED_ON_SECONDS = 10.0
"""How often a filter that says how long ago something was is read anew."""


class TaskQuery:
    """The question that the task list answers."""

    def __init__(
        self, *, room: str | None = None, text: str = "", now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.job: str | None = None
        """The highlighted queue's job."""
        self.text = ""
        """The filter as it was typed."""
        self.order: Order = ORDERS[0]
        self._room = room
        self._now = now
        self._parsed_at: datetime | None = None
        """When a filter that says how long ago something was was read last; None of any other."""
        self._filter = TaskFilter()
        self._window = Window(limit=WINDOW)
        self._part = Part(0, WINDOW)
        self.narrow(text)
        self.begins_everywhere = bool(text.strip())
        """Whether it was started with a filter: that means every queue, as on the command line."""

    def select(self, job: str | None) -> bool:
        """Show another queue's tasks; return whether that changes the list."""
        if job == self.job:
            return False
        changes = not self._names_job()
        self.job = job
        if changes:
            self._window = self._fresh()
        return changes

    def narrow(self, text: str) -> None:
        """Filter by `text`; raises `FilterError` and changes nothing when it can't be read."""
        parsed = filters.parse(text, now=self._now())
        self.text, self._filter = text, parsed
        self._parsed_at = self._now() if filters.is_relative(text) else None
        self._window = self._fresh()

    def move_on(self) -> bool:
        """Let time pass: what was less than an hour ago is others by now; return whether that changes the list."""
        now = self._now()
        if self._parsed_at is None or (now - self._parsed_at).total_seconds() < MOVED_ON_SECONDS:
            return False
        self._filter, self._parsed_at = filters.parse(self.text, now=now), now
        self._window = self._window.model_copy(update={"filter": self._chosen()})
        return True

    def take_order(self, order: Order) -> None:
        """Show the tasks in this order."""
        self.order = order
        self._window = self._fresh()

    def look(self, first: int, height: int, total: int, key_at: Callable[[int], str | None]) -> bool:
        """Note which lines are visible, and what is loaded; return whether that wants another window."""
        part = part_around(first, height, total, self._part)
        if part == self._part:
            return False
        self._part = part
        self._window = anchored(part, self._window, key_at)
        return True

    def arrived(self, offset: int, first_key: str | None) -> bool:
        """Note where the window has come to lie; return whether it is to be watched by its first row from now on.

        After a jump it would otherwise be counted from the list's head each time that it changes.
        """
        self._part = Part(offset, self._part.limit)
        if self._window.offset == 0 or first_key is None:
            return False
        self._window = self._window.model_copy(update={"offset": 0, "first": first_key})
        return True

    @property
    def several_jobs(self) -> bool:
        """Whether the list may hold tasks of more than one job."""
        return self._window.filter.job is None

    @property
    def ended(self) -> bool:
        """Whether the list can hold only tasks that have ended."""
        status = self._window.filter.status
        return status is not None and bool(status) and TERMINAL.issuperset(status)

    def want(self) -> Want | None:
        """Return what to watch; None while there is no queue to show tasks of."""
        if self.job is None and not self._names_job():
            return None
        return Want("tasks", window=self._window, room=self._room)

    @property
    def filter(self) -> TaskFilter:
        """Which tasks the list shows."""
        if self._room is None or self._window.filter.room is not None:
            return self._window.filter
        return self._window.filter.model_copy(update={"room": self._room})

    @property
    def asked(self) -> tuple[str, str | None]:
        """What the list is asked for, in the reader's words: the same while a filter moves on with the time."""
        return self.text, self.job

    def _names_job(self) -> bool:
        return "job" in self._filter.model_fields_set or self._filter.worker is not None

    def _fresh(self) -> Window:
        self._part = Part(0, WINDOW)
        return Window(filter=self._chosen(), order=self.order, limit=WINDOW)

    def _chosen(self) -> TaskFilter:
        job = self._filter.job if self._names_job() else self.job
        return self._filter.model_copy(update={"job": None if job == ALL_QUEUES else job})

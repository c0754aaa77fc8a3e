"""Which tasks the list shows: the highlighted queue's, narrowed by the filter, in one of the orders."""

from treadle import filters
from treadle.wire.frames import Order, Window
from treadle.wire.tasks import TaskFilter
from treadle_tui.core.rows import WINDOW, window_around
from treadle_tui.core.subscriptions import Want
from treadle_tui.core.tasks import ORDERS

ANY = "*"
"""`job:*` in a filter means every queue's tasks, not only the highlighted one's."""


class Browse:
    """The question that the task list answers."""

    def __init__(self, *, room: str | None = None, text: str = "") -> None:
        self.job: str | None = None
        """The highlighted queue's job."""
        self.text = ""
        """The filter as it was typed."""
        self.order: Order = ORDERS[0]
        self._room = room
        self._filter = TaskFilter()
        self._window = Window(limit=WINDOW)
        self.narrow(text)

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
        parsed = filters.parse(text)
        self.text, self._filter = text, parsed
        self._window = self._fresh()

    def next_order(self) -> Order:
        """Take the next order, and return it."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self._window = self._fresh()
        return self.order

    def look(self, first: int, height: int, total: int) -> bool:
        """Note which lines are visible; return whether that wants another window."""
        window = window_around(first, height, total, self._window)
        changed = window != self._window
        self._window = window
        return changed

    @property
    def several_jobs(self) -> bool:
        """Whether the list may hold tasks of more than one job."""
        return self._window.filter.job is None

    def want(self) -> Want | None:
        """Return what to watch; None while there is no queue to show tasks of."""
        if self.job is None and not self._names_job():
            return None
        return Want("tasks", window=self._window, room=self._room)

    @property
    def window(self) -> Window:
        """The part of the list that is watched."""
        return self._window

    def _names_job(self) -> bool:
        return self._filter.job is not None or self._filter.worker is not None

    def _fresh(self) -> Window:
        job = self._filter.job or (None if self._filter.worker else self.job)
        chosen = self._filter.model_copy(update={"job": None if job == ANY else job})
        return Window(filter=chosen, order=self.order, limit=WINDOW)

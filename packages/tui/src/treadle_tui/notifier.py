"""Finds the notifications for a user who is looking elsewhere: marked tasks that end, and new alerts."""

from collections.abc import Sequence

from treadle.transport.answers import read
from treadle.wire.status import TERMINAL
from treadle.wire.tasks import TaskItem
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.state.marks import Marks
from treadle_tui.core.state.model import Model
from treadle_tui.core.state.news import News
from treadle_tui.core.verbs.executor import FAILURES

ASKED_AT_ONCE = 20
"""The most marked tasks to ask for in a second, of those outside the loaded window."""


class Notifier:
    """Looks once a second. Each server has its own, since its alerts are not news about another server."""

    def __init__(self, model: Model, feed: Feed) -> None:
        self._model = model
        self._feed = feed
        self._news = News()
        self._turn = 0

    def look(self, marks: Marks) -> list[str]:
        """Return what has happened since the last look; nothing without a connection, when nothing is known."""
        if not self._model.link.live or not self._model.jobs.ready:
            return []
        return [*self._news.of_marked(marks), *self._news.of_alerts(self._model.alerts())]

    def unseen(self, marks: Marks) -> Sequence[str]:
        """Return open marked tasks outside the loaded window to ask for, different ones each time."""
        known = self._model.tasks.rows
        keys = [task.id for task in marks if task.id not in known and task.status not in TERMINAL]
        self._turn = (self._turn + 1) % max(1, -(-len(keys) // ASKED_AT_ONCE))
        return keys[self._turn * ASKED_AT_ONCE :][:ASKED_AT_ONCE]

    async def ask(self, keys: Sequence[str], marks: Marks) -> None:
        """Update these tasks; one that can't be loaded stays as last seen."""
        for key in keys:
            try:
                task = read(TaskItem, await self._feed.request("get", id=key))
            except FAILURES:
                continue  # Gone, or no connection: there is nothing to report.
            marks.follow({key: task})

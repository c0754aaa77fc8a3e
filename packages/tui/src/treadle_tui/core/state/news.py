"""Notifications for a user who is looking elsewhere: marked tasks that have ended, and new alerts."""

from collections.abc import Iterable

from treadle.wire.status import TERMINAL
from treadle_tui.core.draw.text import clean
from treadle_tui.core.state.attention import Alert
from treadle_tui.core.state.marks import TaskRef


class News:
    """Remembers what was reported, so that nothing is reported twice, nor anything that was so at the first look."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        """The marked tasks that had not ended at the last look."""
        self._alerts: dict[str, str] | None = None
        """The severity of each alert by id; None before the first look."""

    def of_marked(self, marked: Iterable[TaskRef]) -> list[str]:
        """Return which marked tasks have ended since the last look."""
        tasks = list(marked)
        ended = [task for task in tasks if task.status in TERMINAL and task.id in self._open]
        self._open = {task.id for task in tasks if task.status not in TERMINAL}
        return [f"{_short(task.job_name)} {clean(task.id)[-8:]} {task.status.value}" for task in ended]

    def of_alerts(self, alerts: Iterable[Alert]) -> list[str]:
        """Return which alerts are new or have grown worse, or that none is left."""
        alerts = list(alerts)
        before, self._alerts = self._alerts, {alert.id: alert.severity for alert in alerts}
        if before is None:
            return []
        if before and not alerts:
            return ["nothing needs attention any more"]
        return [
            f"{clean(alert.subject)}: {clean(alert.text)}"
            for alert in alerts
            if alert.id not in before or (alert.severity == "bad" and before[alert.id] != "bad")
        ]


def _short(job: str) -> str:
    return clean(job.rsplit(":", 1)[-1], limit=40)

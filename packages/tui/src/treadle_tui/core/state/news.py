"""What is worth a sign to a reader who looks elsewhere: marked tasks that ended, and what newly needs attention."""

from collections.abc import Iterable

from treadle.wire.status import TERMINAL
from treadle_tui.core.draw.text import clean
from treadle_tui.core.state.attention import Alert
from treadle_tui.core.state.marks import TaskRef


class News:
    """Remembers what was told, so that each thing is told once; what is so when one begins to look is no news."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        """The marked tasks that had not ended."""
        self._alerts: dict[str, str] | None = None
        """The severity of each alert; None before the first look."""

    def of_marked(self, marked: Iterable[TaskRef]) -> list[str]:
        """Return what marked tasks have come to since the last look."""
        tasks = list(marked)
        ended = [task for task in tasks if task.status in TERMINAL and task.id in self._open]
        self._open = {task.id for task in tasks if task.status not in TERMINAL}
        return [f"{_short(task.job_name)} {clean(task.id)[-8:]} {task.status.value}" for task in ended]

    def of_alerts(self, alerts: Iterable[Alert]) -> list[str]:
        """Return what needs attention that did not before, or has grown worse; and that nothing does any more."""
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

"""The attention list: what needs attention, worst first; enter goes there."""

from collections.abc import Sequence
from typing import ClassVar

from treadle.wire.frames import Topic
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.state.attention import Alert
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.plan import Report
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.alert_columns import ALERT_COLUMNS
from treadle_tui.core.views.empty_states import no_alerts
from treadle_tui.screens.list_screen import ListScreen

ALERT_TOPICS: tuple[Topic, ...] = ("counts", "jobs", "workers", "targets", "schedules", "failures")
"""The topics that alerts are derived from."""


class Attention(ListScreen[Alert]):
    """Shows in full what the status bar's box summarises."""

    SCOPE: ClassVar[Scope] = "attention"
    COLUMNS = ALERT_COLUMNS
    EXPORTS: ClassVar[str] = "alerts"
    WATCHES: ClassVar[Dirty] = Dirty.ALL & ~(Dirty.TASKS | Dirty.TASK | Dirty.EVENTS)

    def empty(self) -> Sequence[Spans]:
        """Return the text to show instead of rows."""
        return no_alerts(self.ctx.model, self.ctx.glyphs, self.ctx.keymap)

    def update_rows(self) -> None:
        """Show the current alerts."""
        found = self.ctx.model.alerts()
        self.show_rows(found)
        bad = sum(alert.severity == "bad" for alert in found)
        count = f"  {len(found):,}, {bad:,} bad" if found else ""
        self.grid.set_titles(
            self.ctx.aged((Span("! Attention", "title"), Span(count, "dim")), *ALERT_TOPICS),
            (Span(f"{self.ctx.keymap.cap('open')} goes there  {self.ctx.keymap.cap('dismiss')} dismiss", "dim"),),
        )

    def copied(self) -> str | None:
        """Return the subject of the alert."""
        alert = self.row
        return None if alert is None else alert.subject

    def act_dismiss(self) -> None:
        """Hide the highlighted alert from now on."""
        alert = self.row
        if alert is not None:
            self.ctx.model.dismiss(alert)
            self.tell(Report(f"dismissed {alert.subject} until it comes again or gets worse", ok=True))

    def offers(self, action: Action) -> bool:
        """Offer to remove a worker only if it is lost."""
        return super().offers(action) and self.offers_of_worker(self._worker()).get(action.name, True)

    def act_remove_worker(self) -> None:
        """Remove the highlighted worker."""
        self.steer_worker(self._worker(), self.ctx.executor.remove_worker)

    def _worker(self) -> str | None:
        alert = self.row
        return alert.key if alert is not None and alert.kind == "worker" else None

    def act_open(self) -> None:
        """Go to what needs attention."""
        alert = self.row
        if alert is not None:
            self.ctx.go(_WHERE[alert.kind], alert.key)


_WHERE = {
    "queue": "queue",
    "failing": "failed",
    "failure": "failures",
    "worker": "workers",
    "target": "targets",
    "schedule": "schedules",
    "task": "task",
}

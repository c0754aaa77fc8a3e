"""The workers screen: the health of each, and what it runs."""

from collections.abc import Sequence
from typing import ClassVar

from treadle_tui.core.draw.text import Spans
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.state.workers import WorkerRow
from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.empty_states import no_workers
from treadle_tui.core.views.status_bar import UNKNOWN
from treadle_tui.core.views.worker_columns import WORKER_COLUMNS
from treadle_tui.screens.list_screen import ListScreen

_SEVERITY = {"lost": 0, "late": 1, "away": 1, "draining": 2, "busy": 3, "online": 4}


class Workers(ListScreen[WorkerRow]):
    """Every worker, those in trouble first."""

    SCOPE: ClassVar[Scope] = "workers"
    COLUMNS = WORKER_COLUMNS
    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.QUEUES | Dirty.WORKERS

    def empty(self) -> Sequence[Spans]:
        """Return the text to show instead of rows."""
        return no_workers(self.ctx.model)

    def update_rows(self) -> None:
        """Show the current workers."""
        rows = self.ctx.model.worker_rows().values()
        ordered = sorted(rows, key=lambda row: (_SEVERITY[row.health], row.name))
        self.show_rows(ordered)
        serving = f"{sum(row.serves for row in ordered):,}" if self.ctx.model.link.live else UNKNOWN
        table, cap = self.ctx.model.workers, self.ctx.keymap.cap
        counts = f"{serving} of {len(ordered):,}{self.of_all(table)} serving"
        self.tell_counts(table, "3 Workers", counts, f"{cap('open')} its tasks  {cap('back')} back")

    def offers(self, action: Action) -> bool:
        """Offer what can be done to the highlighted worker."""
        return super().offers(action) and self.offers_of_worker(self.pane.rows.cursor).get(action.name, True)

    def act_drain_worker(self) -> None:
        """Tell the highlighted worker to take no more tasks and exit when it has finished."""
        self.steer_worker(self.pane.rows.cursor, self.ctx.executor.drain_worker)

    def act_remove_worker(self) -> None:
        """Remove the highlighted worker."""
        self.steer_worker(self.pane.rows.cursor, self.ctx.executor.remove_worker)

    def act_logs(self) -> None:
        """Show the merged logs of the worker's tasks."""
        if self.pane.rows.cursor is not None:
            self.ctx.go("logs", f"worker:{self.pane.rows.cursor}")

    def act_open(self) -> None:
        """Show the worker's tasks."""
        if self.pane.rows.cursor is not None:
            self.ctx.go("filter", f"worker:{self.pane.rows.cursor}")

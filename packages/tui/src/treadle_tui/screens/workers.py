"""The workers: whether each is well, and what it runs."""

from typing import Any, ClassVar

from treadle_tui.core.actions import Scope
from treadle_tui.core.model import Dirty
from treadle_tui.core.overviews import WORKER_COLUMNS
from treadle_tui.core.pane import Pane
from treadle_tui.core.text import Span
from treadle_tui.core.workers import WorkerRow
from treadle_tui.screens.listing import Listing
from treadle_tui.screens.words import no_workers
from treadle_tui.widgets.grid import Grid, WorkerGrid

_GRAVITY = {"lost": 0, "late": 1, "draining": 2, "busy": 3, "online": 4}


class Workers(Listing):
    """Every worker, the ones in trouble first."""

    SCOPE: ClassVar[Scope] = "workers"
    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.QUEUES | Dirty.WORKERS

    def make(self) -> tuple[Pane[Any], Grid]:
        """Return the pane and its grid."""
        pane: Pane[WorkerRow] = Pane(WORKER_COLUMNS, self.desk.context, empty=lambda: no_workers(self.desk.model))
        return pane, WorkerGrid(pane, id="workers")

    def settle(self) -> None:
        """Show the workers as they are now."""
        rows = self.desk.model.worker_rows()
        ordered = sorted(rows.values(), key=lambda row: (_GRAVITY[row.health], row.name))
        self.pane.rows.settle([row.id for row in ordered], rows)
        serving = sum(row.serves for row in ordered)
        self.grid.entitle(
            (Span("3 Workers", "title"), Span(f"  {serving} of {len(ordered)} serve", "dim")),
            (Span("enter its tasks  esc back", "dim"),),
        )

    def act_open(self) -> None:
        """Show the worker's tasks."""
        if self.pane.rows.cursor is not None:
            self.post_message(self.Go("worker", self.pane.rows.cursor))

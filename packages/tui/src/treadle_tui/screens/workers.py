"""The workers: whether each is well, and what it runs."""

from typing import ClassVar

from textual.app import ComposeResult

from treadle_tui.core.actions import Scope
from treadle_tui.core.model import Dirty
from treadle_tui.core.overviews import WORKER_COLUMNS
from treadle_tui.core.pane import Pane
from treadle_tui.core.text import Span
from treadle_tui.core.workers import WorkerRow
from treadle_tui.desk import Desk
from treadle_tui.screens.board import Board
from treadle_tui.screens.words import no_workers
from treadle_tui.widgets.grid import MOVES, WorkerGrid
from treadle_tui.widgets.paper import Paper

_GRAVITY = {"lost": 0, "late": 1, "draining": 2, "busy": 3, "online": 4}


class Workers(Board):
    """One pane with every worker, the ones in trouble first."""

    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.QUEUES | Dirty.WORKERS

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._workers: Pane[WorkerRow] = Pane(WORKER_COLUMNS, desk.context, empty=lambda: no_workers(desk.model))
        self._grid = WorkerGrid(self._workers, id="workers")
        self._notice = Paper(id="notice-line")

    def body(self) -> ComposeResult:
        """Yield the pane."""
        yield self._grid
        yield self._notice

    def on_mount(self) -> None:
        """Begin in the pane."""
        self._grid.focus()

    @property
    def scope(self) -> Scope:
        """The workers' own keys."""
        return "workers"

    def copied(self) -> str | None:
        """Return the worker's id."""
        return self._workers.rows.cursor

    def draw(self, dirty: Dirty) -> None:
        """Draw the workers anew."""
        rows = self.desk.model.worker_rows()
        ordered = sorted(rows.values(), key=lambda row: (_GRAVITY[row.health], row.name))
        self._workers.rows.settle([row.id for row in ordered], rows)
        self._grid.settle()
        serving = sum(row.serves for row in ordered)
        self._grid.entitle(
            (Span("3 Workers", "title"), Span(f"  {serving} of {len(ordered)} serve", "dim")),
            (Span("enter its tasks  esc back", "dim"),),
        )

    def breathe(self) -> None:
        """Heartbeats get older."""
        self.draw(Dirty.WORKERS)
        self._notice.show([(Span(" "), *self.desk.notice())])

    def act(self, name: str) -> None:
        """Let the pane move by itself."""
        if name in MOVES:
            self._grid.move(name)
        else:
            super().act(name)

    def on_grid_opened(self) -> None:
        """Open what was clicked."""
        self.act_open()

    def act_open(self) -> None:
        """Show the worker's tasks."""
        if self._workers.rows.cursor is not None:
            self.post_message(self.Go("worker", self._workers.rows.cursor))

    def act_back(self) -> None:
        """Go back to the queues."""
        self.act_queues()

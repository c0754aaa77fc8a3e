"""What the screens of one list share: the grid, the filter line where there is one, and verbs on a row's task."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from textual.app import ComposeResult

from treadle import filters
from treadle.filters import FilterError
from treadle.wire.filters import TaskFilter
from treadle_tui.core.draw.columns import Column
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.state.tables import Table
from treadle_tui.core.state.workers import WorkerRow
from treadle_tui.core.verbs.action import Action, Verb
from treadle_tui.core.verbs.actions import MOVES
from treadle_tui.core.verbs.executor import FAILURES, failed
from treadle_tui.core.verbs.plan import Report
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.empty_states import none_of
from treadle_tui.core.views.pane import Pane
from treadle_tui.core.views.status_bar import UNKNOWN
from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.base import BaseScreen
from treadle_tui.screens.export import ExportRequest
from treadle_tui.widgets.filter_line import FilterLine
from treadle_tui.widgets.grid import Grid, grid_of
from treadle_tui.widgets.styled_text import StyledText

OF_LIST = frozenset({"freeze"})
"""What means a list itself, whether or not there are rows."""


class ListedRow(Protocol):
    """A row that is told from the others, and can be written to a file."""

    @property
    def id(self) -> str:
        """What tells it from the others."""

    def exported(self) -> dict[str, Any]:
        """Return what is written of it."""


Row = TypeVar("Row", bound=ListedRow)


class ListScreen(BaseScreen, Generic[Row]):
    """One pane that fills the screen."""

    SCOPE: ClassVar[Scope]
    COLUMNS: ClassVar[Sequence[Column[Any]]]
    EXPORTS: ClassVar[str] = ""
    """What its rows are called in a file, where that is not the scope's name."""
    FILTERS: ClassVar[bool] = False
    """Whether there is a filter line."""

    def __init__(self, ctx: ScreenContext, *, start_at: str | None = None) -> None:
        super().__init__(ctx)
        self._start_at = start_at
        """The row that one came for."""
        self.wanted = TaskFilter()
        self.filter_text = ""
        self.pane: Pane[Row] = Pane(self.COLUMNS, ctx.cell_context, empty=self.empty)
        self.grid = grid_of(self.SCOPE)(self.pane, id="list")
        self._filter_line = self.make_filter_line() if self.FILTERS else None
        self._notice = StyledText(id="notice-line")

    # What a screen says of itself.

    def empty(self) -> Sequence[Spans]:
        """Return what stands there instead of rows."""
        return none_of(self.ctx.model, self.SCOPE, self.filter_text, self.ctx.glyphs, self.ctx.keymap)

    def make_filter_line(self) -> FilterLine:
        """Return the line that takes a filter."""
        return FilterLine(self.ctx.filter_words())

    def update_rows(self) -> None:
        """Give the pane the rows as they are now, and the grid its titles."""
        raise NotImplementedError

    def offers(self, action: Action) -> bool:
        """Name what means a row only where one is highlighted."""
        return self.row is not None or "everywhere" in action.scopes or action.name in OF_LIST

    def task_id(self) -> str | None:
        """Return the task that a verb on the highlighted row means."""
        return None

    # Shared by all of them.

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Give the pane its rows, in their order."""
        self.pane.rows.update([row.id for row in rows], {row.id: row for row in rows})

    def tell_counts(self, table: Table[Any], title: str, counts: str, foot: str) -> None:
        """Write what the frame says; of a table that nobody has told of yet it is not known how much is in it."""
        upper = (Span(title, "title"), Span(f"  {UNKNOWN if table.known_at is None else counts}", "dim"))
        self.grid.set_titles(self.ctx.aged(upper, table.topic), (Span(foot, "dim"),) if foot else ())

    def body(self) -> ComposeResult:
        """Yield the pane, and the line beneath it."""
        yield self.grid
        if self._filter_line is not None:
            yield self._filter_line
        else:
            yield self._notice

    def on_mount(self) -> None:
        """Begin in the pane."""
        self.grid.focus()

    @property
    def scope(self) -> Scope:
        """The pane's own keys."""
        return self.SCOPE

    @property
    def row(self) -> Row | None:
        """The row that is highlighted."""
        return self.pane.rows.highlighted

    def copied(self) -> str | None:
        """Return the highlighted row's key."""
        return self.pane.rows.cursor

    def exported(self) -> ExportRequest:
        """Return all rows of the list, in its order."""
        rows = self.pane.rows
        return ExportRequest(
            rows=tuple(rows.rows[key].exported() for key in rows.keys), what=self.EXPORTS or self.SCOPE
        )

    def draw(self, dirty: Dirty) -> None:
        """Draw the list anew."""
        self.update_rows()
        if self._start_at is not None and self.pane.rows.find(self._start_at):
            self._start_at = None
        self.grid.rows_changed()
        self.show_notice()
        self.show_keys()

    def draw_ages(self) -> None:
        """Ages in the list go on."""
        self.draw(self.WATCHES)

    def show_notice(self) -> None:
        """Tell what was done, for as long as it is news."""
        if self._filter_line is not None:
            self._filter_line.notice(self.ctx.notice())
        else:
            self._notice.show_whole([(Span(" "), *self.ctx.notice())])

    def act(self, name: str) -> None:
        """Let the pane move by itself."""
        if name in MOVES:
            self.grid.move(name)
        else:
            super().act(name)

    def act_back(self) -> None:
        """Take the filter away, or go back to the queues."""
        if self.filter_text:
            self.narrow("")
        else:
            self.ctx.go("queues")

    # The filter.

    def act_filter(self) -> None:
        """Filter this list where it has a filter, the tasks elsewhere."""
        if self._filter_line is not None:
            self._filter_line.edit()
        else:
            super().act_filter()

    def on_filter_line_left(self) -> None:
        """Go to what is filtered."""
        self.grid.focus()

    def on_filter_line_submitted(self, event: FilterLine.Submitted) -> None:
        """Filter, or say what is wrong with the filter."""
        self.narrow(event.text)

    def narrow(self, text: str) -> None:
        """Show the rows that a filter means; one that can't be read changes nothing."""
        try:
            self.wanted = filters.parse(text, now=self.ctx.model.time.now())
        except FilterError as error:
            self.tell(Report(str(error), ok=False))
            return
        self.ctx.mended()
        self.begin_anew(text)

    def begin_anew(self, text: str) -> None:
        """Show what a text leaves of the list, from its first row."""
        self.filter_text = text
        if self._filter_line is not None:
            self._filter_line.put(text)
        self.pane.rows.reset()
        self.pane.fold()
        self.draw(self.WATCHES)
        self.grid.focus()

    # Verbs on a row's worker.

    def on_grid_moved(self, _: Grid.Moved) -> None:
        """Name the keys that mean something for the row that is highlighted now."""
        self.show_keys()

    def offers_of_worker(self, key: str | None) -> dict[str, bool]:
        """Return which verbs are offered of the worker with this id: who is lost is forgotten, any other may drain."""
        row = self.ctx.model.worker_rows().get(key or "")
        is_lost = row is not None and row.health == "lost"
        return {"remove-worker": is_lost, "drain-worker": row is not None and not is_lost and row.health != "draining"}

    def steer_worker(self, key: str | None, verb: Callable[[WorkerRow], Coroutine[Any, Any, Report]]) -> None:
        """Do something to the worker with this id, if it is there, and say what came of it."""
        row = self.ctx.model.worker_rows().get(key or "")
        if row is not None:
            self.tell_of(verb(row))

    # Verbs on a row's task: it is read anew first, for the row says too little of it to act on.

    def _steer(self, verb: Verb) -> None:
        key = self.task_id()
        if key is None or self.ctx.executor.off() is not None:
            super()._steer(verb)
        else:
            self.open_after(self._fetch_for(verb, key), group="steer")

    async def _fetch_for(self, verb: Verb, key: str) -> None:
        try:
            task = await self.requests.fetch(key)
        except FAILURES as error:
            self.post_message(self.Told(failed(verb, str(error))))
        else:
            self.post_message(self.Named(verb, [task], are_first=False))

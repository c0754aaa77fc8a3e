"""What list screens share: the grid, the filter line if there is one, and verbs on a row's task or worker."""

from collections.abc import Callable, Collection, Coroutine, Sequence
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
"""The actions that concern the list itself, even if it has no rows."""


class ListedRow(Protocol):
    """A row that has an id and can be exported."""

    @property
    def id(self) -> str:
        """The row's id."""

    def exported(self) -> dict[str, Any]:
        """Return the fields that are written to an exported file."""


Row = TypeVar("Row", bound=ListedRow)


class ListScreen(BaseScreen, Generic[Row]):
    """A screen with a single pane."""

    SCOPE: ClassVar[Scope]
    COLUMNS: ClassVar[Sequence[Column[Any]]]
    EXPORTS: ClassVar[str] = ""
    """The name of the rows in an exported file, if it is not the scope's name."""
    FILTERS: ClassVar[str] = ""
    """What the filter line says while it is empty; without it there is no such line."""
    FIELDS: ClassVar[Collection[str] | None] = None
    """The fields of a filter that the rows can match; None for all that tasks have."""

    def __init__(self, ctx: ScreenContext, *, start_at: str | None = None) -> None:
        super().__init__(ctx)
        self._start_at = start_at
        """The row to highlight first."""
        self.wanted = TaskFilter()
        self.filter_text = ""
        self.pane: Pane[Row] = Pane(self.COLUMNS, ctx.cell_context, empty=self.empty)
        self.grid = grid_of(self.SCOPE)(self.pane, id="list")
        self._filter_line = self.make_filter_line() if self.FILTERS else None
        self._notice = StyledText(id="notice-line")

    # Defined by each screen.

    def empty(self) -> Sequence[Spans]:
        """Return the text to show instead of rows."""
        return none_of(self.ctx.model, self.SCOPE, self.filter_text, self.ctx.glyphs, self.ctx.keymap)

    def make_filter_line(self) -> FilterLine:
        """Return the filter line."""
        return FilterLine(self.ctx.filter_words(), placeholder=self.FILTERS, fields=self.FIELDS)

    def update_rows(self) -> None:
        """Update the pane's rows and the grid's titles."""
        raise NotImplementedError

    def offers(self, action: Action) -> bool:
        """Offer actions on a row only if one is highlighted."""
        return self.row is not None or "everywhere" in action.scopes or action.name in OF_LIST

    def task_id(self) -> str | None:
        """Return the id of the task that verbs on the highlighted row act on."""
        return None

    # Shared by all of them.

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Show these rows in this order."""
        self.pane.rows.update([row.id for row in rows], {row.id: row for row in rows})

    def of_all(self, table: Table[Any]) -> str:
        """Return how many there are in all, if the list shows only a part of them."""
        is_part = bool(self.filter_text) or table.total > len(table.rows)
        return f" of {table.total:,}" if is_part else ""

    def tell_counts(self, table: Table[Any], title: str, counts: str, foot: str) -> None:
        """Set the grid's titles; the counts of a table that is not loaded yet are unknown."""
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
        """Start with the focus in the pane."""
        self.grid.focus()

    @property
    def scope(self) -> Scope:
        """The scope of the pane's keys."""
        return self.SCOPE

    @property
    def row(self) -> Row | None:
        """The highlighted row."""
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
        """Draw the list."""
        self.update_rows()
        if self._start_at is not None and self.pane.rows.find(self._start_at):
            self._start_at = None
        self.grid.rows_changed()
        self.show_notice()
        self.show_keys()

    def draw_ages(self) -> None:
        """Update the ages in the list."""
        self.draw(self.WATCHES)

    def show_notice(self) -> None:
        """Show what was done last, for a while."""
        if self._filter_line is not None:
            self._filter_line.notice(self.ctx.notice())
        else:
            self._notice.show_whole([(Span(" "), *self.ctx.notice())])

    def act(self, name: str) -> None:
        """Pass moves to the pane."""
        if name in MOVES:
            self.grid.move(name)
        else:
            super().act(name)

    def act_back(self) -> None:
        """Clear the filter, or go back to the queues."""
        if self.filter_text:
            self.narrow("")
        else:
            self.ctx.go("queues")

    # The filter.

    def act_filter(self) -> None:
        """Filter this list, or the tasks if this list has no filter."""
        if self._filter_line is not None:
            self._filter_line.edit()
        else:
            super().act_filter()

    def on_filter_line_left(self) -> None:
        """Focus the filtered list."""
        self.grid.focus()

    def on_filter_line_submitted(self, event: FilterLine.Submitted) -> None:
        """Apply the filter, or show what is wrong with it."""
        self.narrow(event.text)

    def narrow(self, text: str) -> None:
        """Show the rows that match a filter; an invalid one changes nothing."""
        try:
            self.wanted = filters.parse(text, now=self.ctx.model.time.now())
        except FilterError as error:
            self.tell(Report(str(error), ok=False))
            return
        self.ctx.clear_error()
        self.restart(text)

    def restart(self, text: str) -> None:
        """Show the rows that match a text, from the first one."""
        self.filter_text = text
        if self._filter_line is not None:
            self._filter_line.put(text)
        self.pane.rows.reset()
        self.pane.fold()
        self.draw(self.WATCHES)
        self.grid.focus()

    # Verbs on a row's worker.

    def on_grid_moved(self, _: Grid.Moved) -> None:
        """Show the keys for the newly highlighted row."""
        self.show_keys()

    def offers_of_worker(self, key: str | None) -> dict[str, bool]:
        """Return whether each verb is offered for this worker: `remove` if it is lost, otherwise `drain`."""
        row = self.ctx.model.worker_rows().get(key or "")
        is_lost = row is not None and row.health == "lost"
        return {"remove-worker": is_lost, "drain-worker": row is not None and not is_lost and row.health != "draining"}

    def steer_worker(self, key: str | None, verb: Callable[[WorkerRow], Coroutine[Any, Any, Report]]) -> None:
        """Carry out a verb on the worker with this id, if it exists, and show the result."""
        row = self.ctx.model.worker_rows().get(key or "")
        if row is not None:
            self.show_report_of(verb(row))

    # Verbs on a row's task. The task is fetched first: the row has too little data to act on.

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
            self.post_message(self.Reported(failed(verb, str(error))))
        else:
            self.post_message(self.Named(verb, [task], are_first=False))

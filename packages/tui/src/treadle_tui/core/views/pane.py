"""A list as a grid draws it: rows with a cursor, columns for the width at hand, and words for when it is empty."""

from collections.abc import Callable, Container, Iterable, Sequence
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

from treadle_tui.core.draw.columns import CellContext, Column, Placed, head, layout, line
from treadle_tui.core.draw.text import Span, Spans, fit, joined
from treadle_tui.core.views.rows import Rows

Row = TypeVar("Row")

NAMING = 2
"""How many columns, from the left, tell which row it is."""


class Lines(Protocol):
    """What a grid draws and moves in."""

    @property
    def count(self) -> int:
        """How many lines there are."""

    @property
    def index(self) -> int:
        """The cursor's line."""

    def head(self, width: int) -> Spans:
        """Return the line of titles."""

    def line(self, index: int, width: int) -> Spans:
        """Return a line."""

    def empty(self) -> Sequence[Spans]:
        """Return what stands there instead of lines."""

    def go(self, index: int) -> None:
        """Move the cursor."""

    def pin(self) -> None:
        """The reader is here: keep the cursor with its row."""

    def is_cursor(self, index: int) -> bool:
        """Return whether the cursor stands in a line."""


class Pane(Generic[Row]):
    """Rows, columns and context put together."""

    def __init__(
        self,
        columns: Sequence[Column[Row]],
        context: Callable[[], CellContext],
        *,
        marks: Container[str] | None = None,
        empty: Callable[[], Sequence[Spans]] = tuple,
        fate: Callable[[Row, CellContext], Spans] = lambda _, __: (),
    ) -> None:
        """`marks` are shown before their rows; `fate` tells what is known of a row that has left the list."""
        self.rows: Rows[Row] = Rows()
        self._columns = tuple(columns)
        self._context = context
        self._gutter = 3 if marks is None else 5
        self._marks = marks
        self.empty = empty
        self._fate = fate
        self._filled: set[str] = set()
        """The columns that fold away and in which something stood since the list began."""
        self._placed = lru_cache(maxsize=8)(self._layout)

    @property
    def columns(self) -> tuple[Column[Row], ...]:
        """The columns, from left to right."""
        return self._columns

    @columns.setter
    def columns(self, columns: Sequence[Column[Row]]) -> None:
        self._columns = tuple(columns)
        self._placed.cache_clear()

    def fill(self, rows: Iterable[Row]) -> None:
        """Show the columns in which one of the rows has something; they stay, so that lines don't jump to and fro."""
        rows = list(rows)
        new = {
            column.title
            for column in self._columns
            if column.fills is not None and column.title not in self._filled and any(map(column.fills, rows))
        }
        if new:
            self._filled |= new
            self._placed.cache_clear()

    def fold(self) -> None:
        """Fold away what folds away: another list begins."""
        self._filled.clear()
        self._placed.cache_clear()

    @property
    def count(self) -> int:
        """How many lines there are."""
        return self.rows.count

    @property
    def index(self) -> int:
        """The cursor's line."""
        return self.rows.index

    def go(self, index: int) -> None:
        """Move the cursor."""
        self.rows.go(index)

    def pin(self) -> None:
        """The reader is here: keep the cursor with its row."""
        self.rows.pin()

    def is_cursor(self, index: int) -> bool:
        """Return whether the cursor stands in a line."""
        return self.rows.is_cursor(index)

    def head(self, width: int) -> Spans:
        """Return the line of titles."""
        return fit((Span(" " * self._gutter), *head(self._placed(width))), width)

    def line(self, index: int, width: int) -> Spans:
        """Return a line: a row, its tombstone, or dots where nothing is loaded yet."""
        row = self.rows.row_at(index)
        gutter = self._gutter_of(index)
        context = self._context()
        if row is None:
            return fit((gutter, Span(context.glyphs.ellipsis, "faint")), width)
        if self.rows.tombstone is not None and self.rows.is_cursor(index):
            # Its name is still right; everything else is what it was before it left.
            spans = line(self._placed(width)[:NAMING], row, context)
            words = joined([spans, self._fate(row, context), (Span("left this list: enter shows it", "dim"),)])
            return fit((gutter, *words), width, ellipsis=context.glyphs.ellipsis)
        return fit((gutter, *line(self._placed(width), row, context)), width, ellipsis=context.glyphs.ellipsis)

    def _gutter_of(self, index: int) -> Span:
        cursor = ">" if self.rows.is_cursor(index) else " "
        if self._marks is None:
            return Span(f" {cursor} ", "bold")
        key = self.rows.key_at(index)
        return Span(f" {cursor} {'*' if key is not None and key in self._marks else ' '} ", "bold")

    def _layout(self, width: int) -> list[Placed[Row]]:
        shown = [column for column in self._columns if column.fills is None or column.title in self._filled]
        return layout(shown, max(1, width - self._gutter - 1))

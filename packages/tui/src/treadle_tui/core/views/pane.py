"""A list as a grid draws it: rows with a cursor, columns that fit the width, and a text for when it is empty."""

from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from treadle_tui.core.draw.columns import GAP, CellContext, Column, Placed, head, layout, line
from treadle_tui.core.draw.text import Span, Spans, fit, joined
from treadle_tui.core.views.rows import Rows

Row = TypeVar("Row")

NO_LONGER_HERE = Span("no longer here", "dim")
"""Shown in place of a row that has left the list."""

GONE = "gone: it was pruned, this token can't see it, or the server has another database"
"""What became of a task or flow that was here and that the server now says it does not have."""


class Pane(Generic[Row]):
    """Combines rows, columns and drawing context."""

    def __init__(
        self,
        columns: Sequence[Column[Row]],
        context: Callable[[], CellContext],
        *,
        marks: Container[str] | None = None,
        empty: Callable[[], Sequence[Spans]] = tuple,
        fate: Callable[[Row, CellContext], Spans] = lambda _, __: (NO_LONGER_HERE,),
    ) -> None:
        """`marks` are shown in front of their rows; `fate` returns what is known of a row that has left the list."""
        self.rows: Rows[Row] = Rows()
        self._columns = tuple(columns)
        self._context = context
        self._gutter = 3 if marks is None else 5
        self._marks = marks
        self.empty = empty
        self._fate = fate
        self._filled: set[str] = set()
        """The optional columns that have had a value since the list was opened."""
        self._wanted: dict[str, int] = {}
        """The widest value of each column since the list was opened, in cells."""
        self._placed = lru_cache(maxsize=8)(self._layout)

    @property
    def columns(self) -> tuple[Column[Row], ...]:
        """The columns, left to right."""
        return self._columns

    @columns.setter
    def columns(self, columns: Sequence[Column[Row]]) -> None:
        """Show these columns from now on."""
        if tuple(columns) != self._columns:
            self._columns = tuple(columns)
            self._placed.cache_clear()

    def measure(self, first: int, count: int) -> bool:
        """Widen columns to fit the values in these lines, and show optional columns that have one.

        Columns don't shrink or disappear until another list is opened, so that lines don't jump to and fro. Return
        whether anything changed.
        """
        context = self._context()
        changes = False
        for index in range(first, min(first + count, self.rows.count)):
            row = self.rows.row_at(index)
            if row is not None and self._widen(row, context):
                changes = True
        if changes:
            self._placed.cache_clear()
        return changes

    def _widen(self, row: Row, context: CellContext) -> bool:
        changes = False
        for column in self._columns:
            if column.fills is not None and column.title not in self._filled:
                if not column.fills(row):
                    continue
                self._filled.add(column.title)
                changes = True
            cells = column.wanted(row, context)
            if cells > self._wanted.get(column.title, 0):
                self._wanted[column.title] = cells
                changes = True
        return changes

    def fold(self) -> None:
        """Forget the widths and optional columns, because another list is opened."""
        self._filled.clear()
        self._wanted.clear()
        self._placed.cache_clear()

    def head(self, width: int) -> Spans:
        """Return the line of column titles."""
        return fit((Span(" " * self._gutter), *head(self._placed(width))), width)

    def line(self, index: int, width: int) -> Spans:
        """Return a line: a row, its tombstone, or an ellipsis if it is not loaded yet."""
        row = self.rows.row_at(index)
        gutter = self._gutter_of(index)
        context = self._context()
        if row is None:
            return fit((gutter, Span(context.glyphs.ellipsis, "faint")), width)
        if self.rows.tombstone is not None and self.rows.is_cursor(index):
            # The columns that name the row are still right; the others are out of date.
            spans = line([placed for placed in self._placed(width) if placed.column.names], row, context)
            words = joined([spans, self._fate(row, context)], gap=" " * GAP)
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
        return layout(shown, max(1, width - self._gutter - 1), self._wanted)

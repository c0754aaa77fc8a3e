"""The visible part of a long document; only visible lines are ever measured."""

from collections.abc import Sequence

from treadle_tui.core.draw.documents import Document
from treadle_tui.core.draw.text import Spans
from treadle_tui.core.draw.wrapping import wrapped


class Viewport:
    """A scroll position in a document, as a line and a row within the wrapped line; and optionally a cursor.

    Widths and heights are in cells. A document of a million lines costs no more than a screenful.
    """

    def __init__(self, *, follow: bool = False, cursor: bool = False, indent: int = 0) -> None:
        """With an `indent`, lines start out wrapped, and continuation rows are indented by that much."""
        self.cursor = cursor
        self.wraps = indent > 0
        self._indent = indent
        self.line = 0
        """The cursor's line, or without a cursor the first visible line."""
        self.follows = follow
        self._may_follow = follow
        self._top = (0, 0)
        """The first visible line, and the first visible row of it."""

    # What is visible.

    def rows(self, document: Document, index: int, width: int) -> Sequence[Spans]:
        """Return the rows that a line takes."""
        return wrapped(document[index], width, indent=self._indent) if self.wraps else (document[index],)

    def place_of(self, y: int, document: Document, width: int) -> tuple[int, int] | None:
        """Return the line, and the row within it, at row `y` of the screen; None below the end."""
        line, row = self._top
        if not self.wraps:
            return (line + y, 0) if line + y < len(document) else None
        while line < len(document):
            left = len(self.rows(document, line, width)) - row
            if y < left:
                return line, row + y
            y -= left
            line, row = line + 1, 0
        return None

    def visible(self, document: Document, width: int, height: int) -> tuple[int, int]:
        """Return the first and the last visible line."""
        last = self.place_of(max(0, height - 1), document, width)
        return self._top[0], len(document) - 1 if last is None else last[0]

    # Changes of the document or size.

    def fit(self, document: Document, width: int, height: int) -> None:
        """Keep the current place in sight after a change of the document or the size."""
        if not len(document) or height <= 0:
            self._top, self.line = (0, 0), 0
            return
        last = len(document) - 1
        self.line = last if self.follows else min(self.line, last)
        if self.follows:
            self._top = self._end(document, width, height)
            return
        self._top = min(self._top, self._end(document, width, height))
        if not self.wraps:
            self._top = (self._top[0], 0)
        self._reveal(document, width, height)

    def _reveal(self, document: Document, width: int, height: int) -> None:
        if not self.cursor:
            self.line = self._top[0]
            return
        rows = len(self.rows(document, self.line, width))
        # A line taller than the screen keeps the row at which the user is reading.
        fits = rows <= height
        if self.line < self._top[0] or (self.line == self._top[0] and self._top[1] and fits):
            self._top = (self.line, 0)
        lowest = self._above((self.line, rows - 1), height - 1, document, width)
        self._top = max(self._top, min(lowest, (self.line, 0)))

    def _end(self, document: Document, width: int, height: int) -> tuple[int, int]:
        """Return the scroll position at which the end is just visible."""
        last = len(document) - 1
        return self._above((last, len(self.rows(document, last, width)) - 1), height - 1, document, width)

    def _above(self, place: tuple[int, int], rows: int, document: Document, width: int) -> tuple[int, int]:
        line, row = place
        if not self.wraps:
            return max(0, line - rows), 0
        while rows > row and line > 0:
            rows -= row + 1
            line -= 1
            row = len(self.rows(document, line, width)) - 1
        return line, max(0, row - rows)

    def _below(self, place: tuple[int, int], rows: int, document: Document, width: int) -> tuple[int, int]:
        line, row = place
        if not self.wraps:
            return line + rows, 0
        while line < len(document) - 1:
            left = len(self.rows(document, line, width)) - row
            if rows < left:
                break
            rows -= left
            line, row = line + 1, 0
        return line, row + rows

    # Moves of the user.

    def go(self, line: int) -> None:
        """Go to a line; `fit` brings it into sight."""
        self.follows = False
        self.line = line
        if not self.cursor:
            self._top = (line, 0)

    def follow(self) -> None:
        """Follow the end from now on."""
        self.follows = True

    def move(self, by: int, document: Document, width: int, height: int) -> None:
        """Move the cursor by lines; scroll without a cursor, or inside a line that is taller than the screen."""
        first, last = self.visible(document, width, height)
        if not self.cursor or (first == last and len(self.rows(document, first, width)) > height):
            before = self._top
            self.scroll(by, document, width, height)
            if self._top != before:
                return
        self.follows = False
        self.line = max(0, min(self.line + by, len(document) - 1))
        self._note_end(document)

    def scroll(self, by: int, document: Document, width: int, height: int) -> None:
        """Scroll; the cursor is dragged along at the edge."""
        if not len(document):
            return
        end = self._end(document, width, height)
        moved = self._below if by > 0 else self._above
        self._top = min(moved(self._top, abs(by), document, width), end)
        self.follows = False
        first, last = self.visible(document, width, height)
        first += bool(self._top[1]) and first < last
        self.line = min(max(self.line, first), last)
        if self._top == end:
            self.line = last if self._may_follow else self.line
        self._note_end(document)

    def _note_end(self, document: Document) -> None:
        """Follow the end once the user has gone there."""
        self.follows = self._may_follow and self.line >= len(document) - 1

"""Which part of a long document is visible: only the lines in sight are ever measured."""

from collections.abc import Sequence

from treadle_tui.core.draw.documents import Document
from treadle_tui.core.draw.text import Spans
from treadle_tui.core.draw.wrapping import wrapped


class Viewport:
    """A place in a document, by its line and the row of it that wrapping makes; and a cursor, if there is one.

    Widths and heights are in cells; a document of a million lines costs what a screenful costs.
    """

    def __init__(self, *, follow: bool = False, cursor: bool = False, indent: int = 0) -> None:
        """With an `indent` lines are wrapped to begin with, and go on so far to the right."""
        self.cursor = cursor
        self.wraps = indent > 0
        self._indent = indent
        self.line = 0
        """The cursor's line; without a cursor the first visible one."""
        self.follows = follow
        self._may_follow = follow
        self._top = (0, 0)
        """The first visible line, and which of its rows."""

    # What is visible.

    def rows(self, document: Document, index: int, width: int) -> Sequence[Spans]:
        """Return the rows that a line takes."""
        return wrapped(document[index], width, indent=self._indent) if self.wraps else (document[index],)

    def place_of(self, y: int, document: Document, width: int) -> tuple[int, int] | None:
        """Return which line, and which row of it, stands in row `y`; None below the end."""
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

    # What changed.

    def fit(self, document: Document, width: int, height: int) -> None:
        """Keep what one looks at in sight, in a document, or of a size, that is another than before."""
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
        # A line that does not fit is shown from wherever one reads in it.
        fits = rows <= height
        if self.line < self._top[0] or (self.line == self._top[0] and self._top[1] and fits):
            self._top = (self.line, 0)
        lowest = self._above((self.line, rows - 1), height - 1, document, width)
        self._top = max(self._top, min(lowest, (self.line, 0)))

    def _end(self, document: Document, width: int, height: int) -> tuple[int, int]:
        """Return the place from which on the end is just visible."""
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

    # What the reader does.

    def go(self, line: int) -> None:
        """Go to a line; `fit` brings it into sight."""
        self.follows = False
        self.line = line
        if not self.cursor:
            self._top = (line, 0)

    def follow(self) -> None:
        """Go on with the end from now on."""
        self.follows = True

    def move(self, by: int, document: Document, width: int, height: int) -> None:
        """Move the cursor by lines; without one, or inside a line that is longer than the screen, scroll."""
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
        """Show what is above or below; the cursor comes along at the edge."""
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
        """Whoever goes to the end of what grows wants to stay there."""
        self.follows = self._may_follow and self.line >= len(document) - 1

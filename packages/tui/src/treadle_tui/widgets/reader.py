"""A viewer for long texts that only draws visible lines; it wraps, searches, folds, and follows the end."""

import re
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.strip import Strip

from treadle_tui.core.draw.documents import Document, Folding, Found, find, reveal
from treadle_tui.core.draw.format import total
from treadle_tui.core.draw.text import Span, Spans, width
from treadle_tui.core.draw.viewport import Viewport
from treadle_tui.core.draw.wrapping import marked
from treadle_tui.core.verbs.actions import ACTIONS, MOVES, SIDEWAYS
from treadle_tui.widgets.styled_text import Toned

WHEEL = 3
"""How many lines a notch of the mouse wheel scrolls."""

STEP = 8
"""How many cells a press scrolls sideways."""


class Reader(Toned, can_focus=True):
    """Shows a document, with a cursor if parts of it can be folded, searched or copied."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # The ids are the actions' names, so that a keymap can assign other keys.
        Binding(action.key, f"move('{action.name}')", show=False, id=action.name)
        for action in ACTIONS
        if action.name in MOVES | SIDEWAYS.keys()
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"reader--cursor"}
    fades = True

    def __init__(
        self,
        *,
        id: str | None = None,  # noqa: A002 - Textual's own name
        follow: bool = False,
        cursor: bool = False,
        shows_lines: bool = False,
        indent: int = 0,
    ) -> None:
        """`follow` follows the end of a growing text; `shows_lines` shows the visible lines in the frame's lower line.

        With an `indent`, long lines are wrapped and continuation lines are indented by that much.
        """
        super().__init__(id=id)
        self._shows_lines = shows_lines
        self._document: Document = ()
        self._capped = False
        self._viewport = Viewport(follow=follow, cursor=cursor, indent=indent)
        self._left = 0
        self._widest = 0
        self._needle = ""
        self._pattern: re.Pattern[str] | None = None
        self._found = Found(())
        self._at = -1

    # Called by the screen.

    def show(self, document: Document, *, capped: bool = False) -> None:
        """Show this document. The same one again costs nothing, and the scroll position is kept.

        `capped` means that there may be more than is shown.
        """
        if document is self._document or document == self._document:
            return
        self._document, self._capped = document, capped
        if self._pattern is not None:
            self._found = find(document, self._pattern)
        self._look()

    def wrap(self) -> None:
        """Wrap long lines, or cut them off."""
        self._viewport.wraps = not self._viewport.wraps
        self._left = 0
        self._look()

    def fold(self) -> None:
        """Fold or unfold the block that begins on the cursor's line, if any."""
        if isinstance(self._document, Folding) and self._document.toggle(self._viewport.line):
            self._look()

    def follow(self) -> None:
        """Go to the end, and follow it."""
        self._viewport.follow()
        self._look()

    # Searching.

    def search(self, text: str) -> None:
        """Mark the matches of a text, and go to the first from here on; an empty text ends the search."""
        self._needle, self._pattern = text, re.compile(re.escape(text), re.IGNORECASE) if text else None
        self._found = find(self._document, self._pattern) if self._pattern is not None else Found(())
        self._at = -1
        places = self._found.places
        if places:
            here = self._viewport.line
            self.go_to_match(next((i for i, place in enumerate(places) if isinstance(place, int) and place >= here), 0))
        self._draw()

    def next_match(self, by: int) -> None:
        """Go to the next or previous match, cyclically."""
        if self._found.places:
            self.go_to_match((self._at + by) % len(self._found.places))

    def go_to_line(self, line: int) -> None:
        """Go to a line of the document, at the top if there is no cursor."""
        self._viewport.go(line)
        self._look()

    def go_to_match(self, number: int) -> None:
        """Go to a match by its number."""
        self._at = number
        self._viewport.go(reveal(self._document, self._found.places[number]))
        self._look()

    @property
    def found_words(self) -> str:
        """The state of the search, in words; empty without a search."""
        if self._pattern is None:
            return ""
        count = len(self._found.places)
        more = "" if self._found.is_all else "+"
        return f"{self._at + 1:,} of {count:,}{more}" if count else "not found" + (" so far" if more else "")

    @property
    def shows_all(self) -> bool:
        """Whether all lines fit on the screen."""
        first, last = self._viewport.visible(self._document, self.size.width, self.size.height)
        return last - first + 1 >= len(self._document)

    @property
    def where(self) -> str:
        """The visible lines, in words; empty for a single line, which may be a placeholder."""
        first, last = self._viewport.visible(self._document, self.size.width, self.size.height)
        count = len(self._document)
        return f"lines {first + 1:,}-{last + 1:,} of {total(count, capped=self._capped)}" if count > 1 else ""

    # Drawing.

    def render_line(self, y: int) -> Strip:
        """Draw one visible line."""
        cells = self.size.width
        place = self._viewport.place_of(y, self._document, cells)
        if place is None:
            return self.strip((), cells)
        index, row = place
        spans = marked(self._viewport.rows(self._document, index, cells)[row], self._pattern)
        over = None
        if self._viewport.cursor and index == self._viewport.line and self.has_focus:
            over = self.get_component_rich_style("reader--cursor", partial=True)
        if self._viewport.wraps:
            return self.strip(spans, cells, over=over)
        taken = width(spans)
        self._widest = max(self._widest, taken)
        edge = self._left + cells
        line = self.strip(spans, max(taken, edge), over=over)
        if taken <= edge:
            return line.crop(self._left, edge)
        end = self.strip((Span(self._ellipsis(), "faint"),), len(self._ellipsis()), over=over)
        return Strip.join([line.crop(self._left, edge - end.cell_length), end])

    def on_resize(self) -> None:
        """Keep the end, or the cursor, in sight."""
        self._look()

    def _look(self) -> None:
        self._viewport.fit(self._document, self.size.width, self.size.height)
        self._draw()

    def _draw(self) -> None:
        if self._shows_lines:
            self.set_titles((), self._footing())
        self.refresh()

    # Moving.

    def move(self, name: str) -> None:
        """Carry out a moving action."""
        if name in SIDEWAYS:
            self._move_sideways(SIDEWAYS[name])
            return
        page = max(1, self.size.height - 1)
        steps = {"up": -1, "down": 1, "page-up": -page, "page-down": page}
        if name in steps:
            self._viewport.move(steps[name], self._document, self.size.width, self.size.height)
        else:
            self._viewport.go(0 if name == "top" else max(0, len(self._document) - 1))
        self._look()

    def action_move(self, name: str) -> None:
        """Carry out a moving action."""
        self.move(name)

    def _move_sideways(self, by: int) -> None:
        """Scroll lines that are wider than the screen."""
        if not self._viewport.wraps:
            self._left = max(0, min(self._left + by * STEP, self._widest - self.size.width + 1))
            self.refresh()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down."""
        event.stop()
        self._scroll(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        self._scroll(-WHEEL)

    def _scroll(self, by: int) -> None:
        self._viewport.scroll(by, self._document, self.size.width, self.size.height)
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked line; on a double click, fold or unfold its block."""
        under = event.get_content_offset(self)
        if under is None or not self._viewport.cursor:
            return
        place = self._viewport.place_of(under.y, self._document, self.size.width)
        if place is None:
            return
        if place[0] == self._viewport.line and event.chain % 2 == 0:
            self.fold()
        else:
            self._viewport.go(place[0])
            self._look()

    def _footing(self) -> Spans:
        parts = [self.where, "follows" if self._viewport.follows and len(self._document) > 1 else ""]
        parts.append(f'"{self._needle}" {self.found_words}' if self._pattern is not None else "")
        return (Span("   ".join(part for part in parts if part), "dim"),)

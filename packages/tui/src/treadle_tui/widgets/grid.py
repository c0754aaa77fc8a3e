"""A windowed grid: draws only visible lines, and keeps the highlighted row in place on the screen."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from treadle_tui.bindings import bindings
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.draw.wrapping import wrapped
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.pane import Pane
from treadle_tui.widgets.styled_text import Toned

HEAD = 1
"""The number of lines for the titles."""

EMPTY_INDENT = 3
"""The indentation of an empty list's text."""

WHEEL = 3
"""How many lines a notch of the mouse wheel scrolls."""


class Grid(Toned, ScrollView, can_focus=True):
    """Draws the lines of a pane, which has the rows, while the grid has the scroll position."""

    COMPONENT_CLASSES = {"grid--cursor", "grid--away"}  # noqa: RUF012 - Textual's own form

    fades = True

    shows_rows: ClassVar[bool] = True
    """Whether the lower line shows which rows are visible, if there are more than fit."""

    @dataclass
    class Moved(Message):
        """The user moved the cursor."""

        grid: "Grid"

    @dataclass
    class Opened(Message):
        """The user wants to open the highlighted row."""

        grid: "Grid"

    @dataclass
    class Seen(Message):
        """Other lines are visible than before."""

        grid: "Grid"
        first: int
        height: int

    def __init__(self, pane: Pane[Any], *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.pane = pane
        self._drawn_index = 0
        self._seen = (-1, -1)
        self._strips: dict[int, Strip] = {}
        self._foot: Spans = ()
        """The screen's part of the lower line."""
        self._has_rows = False
        """Whether the rows have been set: until then, the pane must not claim that there are none."""

    # Called by the screen.

    def set_titles(self, title: Spans, subtitle: Spans = ()) -> None:
        """Set the texts in the frame's upper and lower line; the lower one starts with the visible rows."""
        self._foot = subtitle
        super().set_titles(title, (*self._visible_rows(), *subtitle))

    def _visible_rows(self) -> Spans:
        above, count = self.scroll_offset.y, self.pane.rows.count
        if not self.shows_rows or count <= self.page or not self.size:
            return ()
        return (Span(f"rows {above + 1:,}-{min(above + self.page, count):,} of {count:,}  ", "dim"),)

    def rows_changed(self) -> None:
        """Measure and draw again after a change of rows, with the highlighted row in the same place on the screen."""
        self._has_rows = True
        shift = self.pane.rows.index - self._drawn_index
        was_visible = self._is_visible(self._drawn_index)
        self._measure()
        self._drawn_index = self.pane.rows.index
        if was_visible and shift:
            if self.scroll_offset.y > 0:
                self.scroll_to(y=self.scroll_offset.y + shift, animate=False, immediate=True)
            self.reveal()
        self._look()
        self.redraw()

    # Drawing.

    def redraw(self) -> None:
        """Redraw the visible lines that have changed, so that nothing is sent to the terminal for the others."""
        width, height = self.size
        self.pane.measure(self.scroll_offset.y, self.page)
        changed = [y for y in range(height) if self._strips.get(y) != self._line(y)]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def render_line(self, y: int) -> Strip:
        """Draw one visible line."""
        strip = self._strips[y] = self._line(y)
        return strip

    def _line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return self.strip(self.pane.head(width), width)
        index = self.scroll_offset.y + y - HEAD
        if self.pane.rows.count == 0:
            told = self.pane.empty() if self._has_rows else ()
            words = [line for one in told for line in wrapped(one, width, indent=EMPTY_INDENT)]
            return self.strip(words[index - 1] if 1 <= index <= len(words) else (), width)
        if index >= self.pane.rows.count:
            return self.strip((), width)
        return self.strip(self.pane.line(index, width), width, over=self._line_style(index))

    def _line_style(self, index: int) -> Style | None:
        if not self.pane.rows.is_cursor(index):
            return None
        return self.get_component_rich_style("grid--cursor" if self.has_focus else "grid--away", partial=True)

    @property
    def page(self) -> int:
        """The number of visible rows."""
        return max(1, self.size.height - HEAD)

    @property
    def allow_vertical_scroll(self) -> bool:
        """Allow it as soon as there are more rows than fit: Textual first shows a scroll bar, at its next drawing."""
        return True

    def _measure(self) -> None:
        size = Size(self.size.width, self.pane.rows.count + HEAD)
        if self.virtual_size != size:
            self.virtual_size = size

    def _is_visible(self, index: int) -> bool:
        return self.scroll_offset.y <= index < self.scroll_offset.y + self.page

    def _look(self) -> None:
        if self.pane.measure(self.scroll_offset.y, self.page):
            self.refresh()
        seen = (self.scroll_offset.y, self.page)
        if seen != self._seen:
            self._seen = seen
            self.post_message(self.Seen(self, *seen))
        self.set_titles(self._titles[0], self._foot)

    def on_focus(self) -> None:
        """Keep the cursor on its row, since keys act on it from now on."""
        self.pane.rows.pin()
        self.refresh()

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self._measure()
        self.reveal()
        self._look()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw what came into sight."""
        super().watch_scroll_y(old_value, new_value)
        self._look()

    def reveal(self) -> None:
        """Scroll as little as possible to bring the cursor into sight."""
        top = self.scroll_offset.y
        if self.pane.rows.index < top:
            self.scroll_to(y=self.pane.rows.index, animate=False, immediate=True)
        elif self.pane.rows.index >= top + self.page:
            self.scroll_to(y=self.pane.rows.index - self.page + 1, animate=False, immediate=True)

    # Moving.

    def go(self, index: int) -> None:
        """Move the cursor, and bring it into sight."""
        self.pane.rows.go(index)
        self._measure()
        self._drawn_index = self.pane.rows.index
        self.reveal()
        self.redraw()
        self.post_message(self.Moved(self))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down, dragging the cursor along."""
        self._wheel(event, WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up, dragging the cursor along."""
        self._wheel(event, -WHEEL)

    def _wheel(self, event: events.MouseEvent, by: int) -> None:
        # Keep the cursor in sight: otherwise a key would act on an invisible row.
        event.stop()
        event.prevent_default()
        self.scroll_to(y=self.scroll_offset.y + by, animate=False, immediate=True)
        top = self.scroll_offset.y
        if not self._is_visible(self.pane.rows.index):
            self.go(max(top, min(self.pane.rows.index, top + self.page - 1)))

    def on_click(self, event: events.Click) -> None:
        """Highlight the row under the mouse, or open it on a double click."""
        place = event.get_content_offset(self)
        if place is None or place.y < HEAD:
            return
        index = self.scroll_offset.y + place.y - HEAD
        if index >= self.pane.rows.count:
            return
        # The clicks behind a double click may come before what it opens, and would open it again.
        if index == self.pane.rows.index and event.chain == 2:
            self.post_message(self.Opened(self))
        elif index != self.pane.rows.index:
            self.go(index)

    def move(self, name: str) -> None:
        """Carry out a moving action."""
        steps = {"up": -1, "down": 1, "page-up": -self.page, "page-down": self.page}
        if name in steps:
            self.go(max(0, self.pane.rows.index + steps[name]))
        else:
            self.go(0 if name == "top" else self.pane.rows.count - 1)


class QueueGrid(Grid):
    """The grid of queues."""

    SCOPE: Scope = "queues"
    BINDINGS = bindings("queues")


class TaskGrid(Grid):
    """The grid of tasks."""

    SCOPE: Scope = "tasks"
    shows_rows = False  # Its list is a window into a longer one, and shows that itself.
    BINDINGS = bindings("tasks")


@cache
def grid_of(scope: Scope) -> type[Grid]:
    """Return a grid class with the keys of a list screen."""

    class ListGrid(Grid):
        BINDINGS = bindings(scope)

    return ListGrid

"""A windowed grid: draws only the visible lines, and keeps the highlighted row in its place on the screen."""

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
"""Lines that the titles take."""

EMPTY_INDENT = 3
"""How far what an empty list says stands to the right."""

WHEEL = 3
"""Lines that a notch of the mouse wheel scrolls."""


class Grid(Toned, ScrollView, can_focus=True):
    """Draws a pane's lines; the pane knows the rows, the grid knows the screen."""

    COMPONENT_CLASSES = {"grid--cursor", "grid--away"}  # noqa: RUF012 - Textual's own form

    fades = True

    tells_rows: ClassVar[bool] = True
    """Whether the lower line says which rows are visible, where there are more than it has room for."""

    @dataclass
    class Moved(Message):
        """The reader moved the cursor."""

        grid: "Grid"

    @dataclass
    class Opened(Message):
        """The reader wants to see what is in the highlighted row."""

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
        """What the screen wants in the lower line."""
        self._is_told = False
        """Whether the pane has had the rows as they are: before, it must not say that there are none."""

    # What the screen tells.

    def set_titles(self, title: Spans, subtitle: Spans = ()) -> None:
        """Put words into the frame's upper and lower line, which begins with what rows are visible."""
        self._foot = subtitle
        super().set_titles(title, (*self._visible_rows(), *subtitle))

    def _visible_rows(self) -> Spans:
        above, count = self.scroll_offset.y, self.pane.rows.count
        if not self.tells_rows or count <= self.page or not self.size:
            return ()
        return (Span(f"rows {above + 1:,}-{min(above + self.page, count):,} of {count:,}  ", "dim"),)

    def rows_changed(self) -> None:
        """The rows changed: measure and draw anew, with the highlighted row where it was on the screen."""
        self._is_told = True
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
        """Draw those visible lines anew that look different now; where none does, nothing is sent to the terminal."""
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
            told = self.pane.empty() if self._is_told else ()
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
        """How many rows are visible."""
        return max(1, self.size.height - HEAD)

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
        """From now on keys act on the highlighted row."""
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
        """Scroll just as far as the cursor wants."""
        top = self.scroll_offset.y
        if self.pane.rows.index < top:
            self.scroll_to(y=self.pane.rows.index, animate=False, immediate=True)
        elif self.pane.rows.index >= top + self.page:
            self.scroll_to(y=self.pane.rows.index - self.page + 1, animate=False, immediate=True)

    # Moving.

    def go(self, index: int) -> None:
        """Move the cursor, and show it."""
        self.pane.rows.go(index)
        self._measure()
        self._drawn_index = self.pane.rows.index
        self.reveal()
        self.redraw()
        self.post_message(self.Moved(self))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down, and take the cursor along."""
        self._wheel(event, WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up, and take the cursor along."""
        self._wheel(event, -WHEEL)

    def _wheel(self, event: events.MouseEvent, by: int) -> None:
        # The cursor never goes out of sight: a key would act on what nobody sees.
        event.stop()
        event.prevent_default()
        self.scroll_to(y=self.scroll_offset.y + by, animate=False, immediate=True)
        top = self.scroll_offset.y
        if not self._is_visible(self.pane.rows.index):
            self.go(max(top, min(self.pane.rows.index, top + self.page - 1)))

    def on_click(self, event: events.Click) -> None:
        """Highlight the row under the mouse; open it at the second click."""
        place = event.get_content_offset(self)
        if place is None or place.y < HEAD:
            return
        index = self.scroll_offset.y + place.y - HEAD
        if index >= self.pane.rows.count:
            return
        if index == self.pane.rows.index and event.chain > 1:
            self.post_message(self.Opened(self))
        elif index != self.pane.rows.index:
            self.go(index)

    def move(self, name: str) -> None:
        """Carry out one of the moving actions."""
        steps = {"up": -1, "down": 1, "page-up": -self.page, "page-down": self.page}
        if name in steps:
            self.go(max(0, self.pane.rows.index + steps[name]))
        else:
            self.go(0 if name == "top" else self.pane.rows.count - 1)


class QueueGrid(Grid):
    """The queues."""

    SCOPE: Scope = "queues"
    BINDINGS = bindings("queues")


class TaskGrid(Grid):
    """The tasks."""

    SCOPE: Scope = "tasks"
    tells_rows = False  # Its list is a window into a longer one, and says so itself.
    BINDINGS = bindings("tasks")


@cache
def grid_of(scope: Scope) -> type[Grid]:
    """Return the grid with the keys of a list that fills a screen."""

    class ListGrid(Grid):
        BINDINGS = bindings(scope)

    return ListGrid

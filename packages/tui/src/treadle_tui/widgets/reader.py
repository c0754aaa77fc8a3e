"""A long text that scrolls: draws the visible lines alone, however many there are."""

from collections.abc import Sequence

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from treadle_tui.core.text import Spans, width
from treadle_tui.widgets.paper import Toned


class Reader(Toned, ScrollView, can_focus=True):
    """Lines of spans; scrolls with the arrow keys, and stays at the end when it was there."""

    def __init__(self, *, id: str | None = None, follow: bool = False) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._lines: Sequence[Spans] = ()
        self._follow = follow

    def show(self, lines: Sequence[Spans]) -> None:
        """Show these lines from now on."""
        if lines == self._lines:
            return
        at_end = self.scroll_offset.y >= self.max_scroll_y
        self._lines = lines
        widest = max((width(line) for line in lines[:1000]), default=0)
        self.virtual_size = Size(widest + 1, len(lines))
        if self._follow and at_end:
            self.scroll_end(animate=False)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one visible line."""
        index = self.scroll_offset.y + y
        size = max(self.size.width, self.virtual_size.width)
        strip = self.strip(self._lines[index] if index < len(self._lines) else (), size)
        return strip.crop(self.scroll_offset.x, self.scroll_offset.x + self.size.width)

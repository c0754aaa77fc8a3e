"""The strip on top: the connection, the sums, and the boxes Throughput, Now and Attention."""

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget

from treadle_tui.core.strip import attention_lines, now_lines, throughput_lines, top_line
from treadle_tui.core.text import Span
from treadle_tui.desk import Desk
from treadle_tui.widgets.paper import Paper


class Top(Widget):
    """Drawn from the model whenever it is told to; folds to its first line where the screen is low or narrow."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk
        self._line = Paper(id="top-line")
        self._throughput = Paper(id="throughput", classes="box", fades=True)
        self._now = Paper(id="now", classes="box", fades=True)
        self._attention = Paper(id="attention", classes="box", fades=True)
        self._boxes = Horizontal(self._throughput, self._now, self._attention, id="boxes")

    def compose(self) -> ComposeResult:
        """Put the line over the boxes."""
        yield self._line
        yield self._boxes

    def on_resize(self) -> None:
        """Draw for the new width."""
        self.call_after_refresh(self.show)

    def show(self) -> None:
        """Draw what the model holds now."""
        desk = self._desk
        boxes = self._boxes.display and self._boxes.size.height > 0
        self._line.show(
            [
                top_line(
                    desk.model,
                    self.size.width,
                    desk.glyphs,
                    place=desk.place,
                    read_only=desk.steering.read_only,
                    folded=not boxes,
                )
            ]
        )
        if boxes:
            self._show_boxes()

    def _show_boxes(self) -> None:
        desk = self._desk
        title, lines = throughput_lines(desk.model, self._throughput.content_size.width, desk.glyphs)
        self._throughput.entitle(title)
        self._throughput.show(lines)
        self._now.entitle((Span("Now", "title"),))
        self._now.show(now_lines(desk.model))
        size = self._attention.content_size
        found = len(desk.model.concerns())
        self._attention.entitle((Span("! Attention", "title"), Span(f"  {found}" if found else "", "dim")))
        self._attention.show(attention_lines(desk.model, size.width, size.height, desk.glyphs))

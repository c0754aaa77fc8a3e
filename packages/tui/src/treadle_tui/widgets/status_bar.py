"""The status bar at the top: the connection, the totals, and the boxes Throughput, Now and Attention."""

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget

from treadle_tui.core.draw.text import Span
from treadle_tui.core.views.status_bar import attention_lines, now_lines, throughput_lines, top_line
from treadle_tui.screen_context import ScreenContext
from treadle_tui.widgets.styled_text import StyledText


class StatusBar(Widget):
    """Draws the model on request; folds to its first line on a low or narrow screen."""

    def __init__(self, ctx: ScreenContext) -> None:
        super().__init__()
        self._ctx = ctx
        self._line = StyledText(id="top-line")
        self._throughput = StyledText(id="throughput", classes="box", fades=True)
        self._now = StyledText(id="now", classes="box", fades=True)
        self._attention = StyledText(id="attention", classes="box", fades=True)
        self._boxes = Horizontal(self._throughput, self._now, self._attention, id="boxes")

    def compose(self) -> ComposeResult:
        """Yield the line above the boxes."""
        yield self._line
        yield self._boxes

    def on_resize(self) -> None:
        """Draw for the new width."""
        self.call_after_refresh(self.show)

    def show(self) -> None:
        """Draw the current state of the model."""
        ctx = self._ctx
        boxes = self._boxes.display and self._boxes.size.height > 0
        self._line.show(
            [
                top_line(
                    ctx.model,
                    self.size.width,
                    ctx.glyphs,
                    server_name=ctx.connection.server_name,
                    read_only=ctx.executor.read_only,
                    folded=not boxes,
                )
            ]
        )
        if boxes:
            self._show_boxes()

    def _show_boxes(self) -> None:
        ctx = self._ctx
        title, lines = throughput_lines(ctx.model, self._throughput.content_size.width, ctx.glyphs)
        self._throughput.set_titles(ctx.aged(title, "jobs"))
        self._throughput.show(lines)
        self._now.set_titles(ctx.aged((Span("Now", "title"),), "counts", "workers"))
        self._now.show(now_lines(ctx.model))
        size = self._attention.content_size
        found = len(ctx.model.alerts())
        attention = (Span("! Attention", "title"), Span(f"  {found:,}" if found else "", "dim"))
        self._attention.set_titles(ctx.aged(attention, "jobs", "workers"))
        self._attention.show(attention_lines(ctx.model, size.width, size.height, ctx.glyphs))

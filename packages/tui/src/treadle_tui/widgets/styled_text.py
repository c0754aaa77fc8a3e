"""Draws toned spans line by line; all text of the dashboard is drawn here, never as markup."""

from collections.abc import Mapping, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.strip import Strip
from textual.style import Style as VisualStyle
from textual.widget import Widget

from treadle_tui.core.draw.glyphs import ASCII, UNICODE
from treadle_tui.core.draw.text import Spans, fit
from treadle_tui.core.draw.wrapping import shortened, wrapped
from treadle_tui.tones import ToneVariant, tones

UNLAID = 60
"""The width to assume before the layout is known, as in a dialog."""

FRAME_CELLS = 6
"""The cells of a title's line that the frame takes."""


class Toned(Widget):
    """A widget that knows the style of every tone."""

    fades = False
    """Whether it is dimmed without a connection, because its data is out of date."""

    _titles: tuple[Spans, Spans] = ((), ())
    _tones: Mapping[str, Style] | None = None

    def tone(self, name: str) -> Style:
        """Return the style of a tone, without a background."""
        if self._tones is None:
            if self.has_class("-production"):
                place: ToneVariant = "production"
            else:
                place = "stale" if self.fades and self.screen.has_class("-stale") else "usual"
            self._tones = tones(self.app.theme, place)
        return self._tones[name]

    def strip(self, spans: Spans, width: int, *, over: Style | None = None) -> Strip:
        """Return the spans as a strip of `width` cells, with the widget's background or that of `over`."""
        base = self.rich_style if over is None else self.rich_style + over
        if self.app.has_class("-ascii"):
            spans = tuple(span._replace(text=ASCII.clean(span.text, limit=len(span.text))) for span in spans)
        fitting = fit(spans, width, ellipsis=self._ellipsis())
        return Strip([Segment(text, self._style(base, tone, link)) for text, tone, link in fitting], width)

    def _ellipsis(self) -> str:
        return ASCII.ellipsis if self.app.has_class("-ascii") else UNICODE.ellipsis

    def _style(self, base: Style, tone: str, link: str) -> Style:
        style = base + self.tone(tone)
        return style + Style(link=link) if link else style

    def content(self, spans: Spans) -> Content:
        """Return the spans as content for border titles, without interpreting markup."""
        return Content.assemble(*((text, VisualStyle.from_rich_style(self.tone(tone))) for text, tone, _ in spans))

    def set_titles(self, title: Spans, subtitle: Spans = ()) -> None:
        """Set the texts in the frame's upper and lower line, if they have changed."""
        if self._titles != (title, subtitle):
            self._titles = (title, subtitle)
            self._write_titles()

    def on_resize(self) -> None:
        """Fit the titles into the new width."""
        if any(self._titles):
            self._write_titles()

    def notify_style_update(self) -> None:
        """Redraw the titles, whose colours may have changed with the theme or the age of the data."""
        super().notify_style_update()
        self._tones = None
        if any(self._titles):
            # Later, because setting the titles must not happen during an update of styles.
            self.call_later(self._write_titles)

    def _write_titles(self) -> None:
        room = self.outer_size.width - FRAME_CELLS
        ellipsis = self._ellipsis()
        title, subtitle = (shortened(line, room, ellipsis=ellipsis) if room > 0 else line for line in self._titles)
        self.border_title = self.content(title) if title else None
        self.border_subtitle = self.content(subtitle) if subtitle else None


class StyledText(Toned):
    """Some lines of spans, drawn only when they change."""

    def __init__(
        self,
        *,
        id: str | None = None,  # noqa: A002 - Textual's own name
        classes: str | None = None,
        fades: bool = False,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.fades = fades
        self._lines: tuple[Spans, ...] = ()

    def show(self, lines: Sequence[Spans]) -> None:
        """Show these lines."""
        new = tuple(lines)
        if new != self._lines:
            self._lines = new
            self.refresh()

    def show_all(self, lines: Sequence[Spans]) -> None:
        """Show these lines, and adapt the height."""
        self.styles.height = len(lines)
        self.show(lines)

    def show_whole(self, lines: Sequence[Spans]) -> None:
        """Show these lines, wrapped, and adapt the height."""
        cells = self.size.width or UNLAID
        self.show_all([part for line in lines for part in wrapped(line, cells, indent=1)])

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        return self.strip(self._lines[y] if y < len(self._lines) else (), self.size.width)

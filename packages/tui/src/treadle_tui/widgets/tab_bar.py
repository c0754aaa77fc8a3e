"""The tabs of a task's sheets."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from treadle_tui.core.draw.text import Span, width
from treadle_tui.widgets.styled_text import StyledText


@dataclass(frozen=True, slots=True)
class Tab:
    """The title of a sheet, its number of entries, and whether it is empty."""

    name: str
    title: str
    count: str = ""
    is_empty: bool = False


class TabBar(StyledText):
    """Titles in a row, with the open one in brackets."""

    @dataclass
    class Chosen(Message):
        """A tab was clicked."""

        name: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._ends: list[tuple[int, str]] = []

    def show_tabs(self, tabs: Sequence[Tab], active: str) -> None:
        """Draw the tabs, with empty sheets faint."""
        if not self._draw(tabs, active, counted={tab.name for tab in tabs}):
            self._draw(tabs, active, counted={active})

    def _draw(self, tabs: Sequence[Tab], active: str, *, counted: Collection[str]) -> bool:
        """Draw the tabs, with counts for those that are `counted`; return whether they fit."""
        spans = [Span(" ")]
        self._ends = []
        for tab in tabs:
            count = f" {tab.count}" if tab.count and tab.name in counted else ""
            if tab.name == active:
                spans += [Span("[", "accent"), Span(tab.title, "bold"), Span(count, "dim"), Span("]", "accent")]
            else:
                spans += [Span(f" {tab.title}", "faint" if tab.is_empty else "plain"), Span(f"{count} ", "faint")]
            self._ends.append((width(spans), tab.name))
        # Strip the last blank, so that it can't cause the last title to be cut.
        spans[-1] = spans[-1]._replace(text=spans[-1].text.rstrip())
        self.show([tuple(spans)])
        return not self.size.width or width(spans) <= self.size.width

    def on_click(self, event: events.Click) -> None:
        """Open the sheet under the mouse."""
        name = next((name for end, name in self._ends if event.x < end), None)
        if name is not None:
            self.post_message(self.Chosen(name))

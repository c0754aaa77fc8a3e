"""The filter line: an input on the left, what was just done on the right, or above it when it is long."""

from collections.abc import Mapping
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.message import Message
from textual.widgets import Input

from treadle import filters
from treadle_tui.core.draw.text import Span, Spans, width
from treadle_tui.core.draw.wrapping import wrapped
from treadle_tui.widgets.line_input import LineInput, Offer
from treadle_tui.widgets.styled_text import StyledText

PLACEHOLDER = "filter: status:failed ended:<1h target:cam-1 some text"

FILTERING = {"enter": "filter", "tab": "complete", "esc": "leave"}
FINDING = {"enter": "find", "esc": "leave"}

SIGN = 3
LEAST_TYPED = 24
"""Cells that are left to the filter: what takes more than the others stands above it."""


class FilterLine(Vertical):
    """Takes the filter, and shows notices beside it."""

    @dataclass
    class Submitted(Message):
        """The reader wants this filter."""

        text: str

    class Left(Message):
        """The reader is done here and changes nothing."""

    def __init__(self, known: filters.Known | None, *, placeholder: str = PLACEHOLDER) -> None:
        """`known` is what a filter may name; None: it takes a text and no filter."""
        super().__init__(id="prompt")
        self.KEYS: Mapping[str, str] = FINDING if known is None else FILTERING
        """What works while one types."""
        self._known = known
        self._present = ""
        """What the list is narrowed by."""
        self._sign = StyledText(id="prompt-sign")
        self._input = LineInput(
            placeholder=placeholder,
            suggester=Offer(self._completed),
            compact=True,
            select_on_focus=False,
            id="filter",
        )
        self._notice = StyledText(id="notice")
        self._long_notice = StyledText(id="long-notice")

    def compose(self) -> ComposeResult:
        """Put the sign before the input, and the notice behind or above it."""
        yield self._long_notice
        with Horizontal(id="prompt-line"):
            yield self._sign
            yield self._input
            yield self._notice

    def on_mount(self) -> None:
        """Draw the sign."""
        self._sign.show([(Span(" / ", "accent"),)])

    def edit(self) -> None:
        """Let the reader type, with the very next key: `focus` would wait behind those that are typed already.

        What stands there is selected: a letter begins anew, an arrow or the end key goes on with it.
        """
        self.screen.set_focus(self._input)
        self._input.action_select_all()

    def put(self, text: str) -> None:
        """Show the filter that the list is narrowed by from now on."""
        self._present = text
        self._input.value = text

    def notice(self, spans: Spans) -> None:
        """Show what was done, or what is wrong; nothing takes no room."""
        beside = (Span("  "), *spans) if spans else ()
        above: list[Spans] = []
        cells = self.size.width
        if width(beside) > cells - SIGN - LEAST_TYPED:
            above, beside = wrapped((Span(" "), *spans), cells, indent=1), ()
        self._notice.styles.width = width(beside)
        self._notice.show([beside])
        self._long_notice.show_all(above)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Pass the filter on."""
        event.stop()
        self.post_message(self.Submitted(event.value))

    def on_key(self, event: Key) -> None:
        """Leave by escape, the filter as it was, or downwards; complete by tab."""
        match event.key:
            case "escape" | "down" | "up":
                self._input.value = self._present
                self.post_message(self.Left())
            case "tab":
                self._complete()
            case "shift+tab":
                pass
            case _:
                return
        event.stop()
        event.prevent_default()

    def _completed(self, text: str) -> str | None:
        """Return a filter with its last word completed."""
        return None if self._known is None else filters.complete(text, self._known)

    def _complete(self) -> None:
        found = self._completed(self._input.value)
        if found is not None and found == self._input.fit(found):
            self._input.value = found
            self._input.cursor_position = len(found)

    def on_descendant_blur(self) -> None:
        """Show what the list is narrowed by once one is elsewhere: what was only typed there would be no filter."""
        # With nothing in focus it is the terminal that has lost it, and the line has it again afterwards.
        if self.screen.focused not in {None, self._input}:
            self._input.value = self._present

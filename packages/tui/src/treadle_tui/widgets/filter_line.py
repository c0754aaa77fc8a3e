"""The filter line: an input on the left, and a notice on the right, or above it if it is long."""

from collections.abc import Collection, Mapping
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
"""The cells to leave for the filter: a notice that needs them is shown above it."""


class FilterLine(Vertical):
    """Takes the filter, and shows notices next to it."""

    @dataclass
    class Submitted(Message):
        """The user submitted this filter."""

        text: str

    class Left(Message):
        """The user left the line without changing the filter."""

    def __init__(
        self,
        known: filters.Known | None,
        *,
        placeholder: str = PLACEHOLDER,
        fields: Collection[str] | None = None,
    ) -> None:
        """`known` are the names that a filter may contain; None for a plain text instead of a filter.

        `fields` are the fields of a filter for which keys are offered; None for all.
        """
        super().__init__(id="prompt")
        self.KEYS: Mapping[str, str] = FINDING if known is None else FILTERING
        """The keys that work in it, for the line of keys."""
        self._known = known
        self._fields = fields
        self._present = ""
        """The current filter of the list."""
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
        """Yield the sign, the input, and the notice after or above it."""
        yield self._long_notice
        with Horizontal(id="prompt-line"):
            yield self._sign
            yield self._input
            yield self._notice

    def on_mount(self) -> None:
        """Draw the sign."""
        self._sign.show([(Span(" / ", "accent"),)])

    def edit(self) -> None:
        """Focus the input in time for the very next key; `focus` would wait behind keys that are typed already.

        The text is selected: a letter replaces it, and an arrow or the end key continues it.
        """
        self.screen.set_focus(self._input)
        self._input.action_select_all()

    def put(self, text: str) -> None:
        """Show the list's current filter."""
        self._present = text
        self._input.value = text

    def notice(self, spans: Spans) -> None:
        """Show a notice; an empty one takes no room."""
        beside = (Span("  "), *spans) if spans else ()
        above: list[Spans] = []
        cells = self.size.width
        if width(beside) > cells - SIGN - LEAST_TYPED:
            above, beside = wrapped((Span(" "), *spans), cells, indent=1), ()
        self._notice.styles.width = width(beside)
        self._notice.show([beside])
        self._long_notice.show_all(above)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Post the filter."""
        event.stop()
        self.post_message(self.Submitted(event.value))

    def on_key(self, event: Key) -> None:
        """Leave on escape, up or down, with the old filter; complete on tab."""
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
        """Return the filter with its last word completed."""
        return None if self._known is None else filters.complete(text, self._known, fields=self._fields)

    def _complete(self) -> None:
        found = self._completed(self._input.value)
        if found is not None and found == self._input.fit(found):
            self._input.value = found
            self._input.cursor_position = len(found)

    def on_descendant_blur(self) -> None:
        """Restore the list's filter when the focus moves elsewhere: a text that was not submitted is no filter."""
        # If nothing is focused, the terminal has lost the focus, and the line will get it back.
        if self.screen.focused not in {None, self._input}:
            self._input.value = self._present

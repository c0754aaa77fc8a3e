"""The input line for searching a long text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.events import Key
from textual.message import Message
from textual.widgets import Input

from treadle_tui.core.draw.text import Span
from treadle_tui.widgets.line_input import LineInput
from treadle_tui.widgets.styled_text import StyledText


class Search(Horizontal):
    """Hidden until a search begins."""

    KEYS: ClassVar[Mapping[str, str]] = {"enter": "find", "esc": "leave"}
    """The keys that work in it, for the line of keys."""

    @dataclass
    class Wanted(Message):
        """The user searches for this; an empty text ends the search."""

        text: str

    def __init__(self, placeholder: str = "find in this sheet") -> None:
        super().__init__(id="search")
        self._sign = StyledText(id="search-sign")
        self._input = LineInput(placeholder=placeholder, compact=True, select_on_focus=True, id="needle")

    def compose(self) -> ComposeResult:
        """Yield the sign and the input."""
        yield self._sign
        yield self._input

    def on_mount(self) -> None:
        """Draw the sign, and hide."""
        self._sign.show([(Span(" / ", "accent"),)])
        self.display = False

    def begin(self) -> None:
        """Show and focus the input."""
        self.display = True
        self.screen.set_focus(self._input)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Start the search."""
        event.stop()
        self._end(event.value)

    def on_key(self, event: Key) -> None:
        """End the search on escape; keep tab from moving the focus."""
        if event.key in {"escape", "tab", "shift+tab"}:
            event.stop()
            event.prevent_default()
        if event.key == "escape":
            self._give_up()

    def on_descendant_blur(self) -> None:
        """End the search when the focus moves elsewhere before it was submitted."""
        # If nothing is focused, the terminal has lost the focus, and the line will get it back.
        if self.display and self.screen.focused not in {None, self._input}:
            self._give_up()

    def _give_up(self) -> None:
        self._input.value = ""
        self._end("")

    def _end(self, text: str) -> None:
        self.display = False
        self.post_message(self.Wanted(text))

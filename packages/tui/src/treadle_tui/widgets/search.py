"""The line in which one types what to look for in a long text."""

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
    """Hidden until it is wanted."""

    KEYS: ClassVar[Mapping[str, str]] = {"enter": "find", "esc": "leave"}
    """What works while one types."""

    @dataclass
    class Wanted(Message):
        """The reader looks for this; nothing to end the search."""

        text: str

    def __init__(self, placeholder: str = "find in this sheet") -> None:
        super().__init__(id="search")
        self._sign = StyledText(id="search-sign")
        self._input = LineInput(placeholder=placeholder, compact=True, select_on_focus=True, id="needle")

    def compose(self) -> ComposeResult:
        """Put the sign before the input."""
        yield self._sign
        yield self._input

    def on_mount(self) -> None:
        """Draw the sign, and wait."""
        self._sign.show([(Span(" / ", "accent"),)])
        self.display = False

    def begin(self) -> None:
        """Let the reader type."""
        self.display = True
        self.screen.set_focus(self._input)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Look for it."""
        event.stop()
        self._end(event.value)

    def on_key(self, event: Key) -> None:
        """Leave by escape, and look for nothing any more; no key goes elsewhere without that."""
        if event.key in {"escape", "tab", "shift+tab"}:
            event.stop()
            event.prevent_default()
        if event.key == "escape":
            self._give_up()

    def on_descendant_blur(self) -> None:
        """Leave as by escape once one is elsewhere: what was only typed there is not looked for."""
        # With nothing in focus it is the terminal that has lost it, and the line has it again afterwards.
        if self.display and self.screen.focused not in {None, self._input}:
            self._give_up()

    def _give_up(self) -> None:
        self._input.value = ""
        self._end("")

    def _end(self, text: str) -> None:
        self.display = False
        self.post_message(self.Wanted(text))

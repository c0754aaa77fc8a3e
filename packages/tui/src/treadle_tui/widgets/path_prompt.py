"""Asks where to write a file; tab completes the path."""

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from treadle_tui.core.draw.text import Span, clean
from treadle_tui.widgets.keys_line import key_words
from treadle_tui.widgets.line_input import LineInput, shared_beginning
from treadle_tui.widgets.styled_text import StyledText

SHOWN = 6


class PathPrompt(ModalScreen[str | None]):
    """Closes with the path as typed, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", show=False),
        Binding("tab", "complete", show=False, priority=True),
    ]

    def __init__(self, title: str, suggested: str, complete: Callable[[str], Sequence[str]]) -> None:
        super().__init__()
        self._title = title
        self._complete = complete
        self._input = LineInput(value=suggested, compact=True, select_on_focus=False, id="path")
        self._text = StyledText(id="question")
        self._found = StyledText(id="hint")
        self._keys = StyledText()

    def compose(self) -> ComposeResult:
        """Yield the question, the path, and its completions."""
        with Vertical(id="dialog", classes="box"):
            yield self._text
            yield self._input
            yield self._found
            yield self._keys

    def on_mount(self) -> None:
        """Show the question."""
        self._text.show([(Span(self._title, "bold"),)])
        self._found.display = False
        self._keys.show([key_words({"enter": "write", "tab": "complete", "esc": "leave"})])

    async def action_complete(self) -> None:
        """Extend the path by what all completions share, and list them."""
        found = await asyncio.to_thread(self._complete, self._input.value)
        if not found:
            self._say("no path begins like this")
            return
        self._input.value = shared_beginning(found)
        self._input.cursor_position = len(self._input.value)
        names = [clean(path.rstrip("/").rpartition("/")[2] + ("/" if path.endswith("/") else "")) for path in found]
        more = f"  and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
        self._say("  ".join(names[:SHOWN]) + more if len(names) > 1 else "")

    def _say(self, words: str) -> None:
        self._found.display = bool(words)
        self._found.show([(Span(words, "dim"),)])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with the path."""
        event.stop()
        if event.value.strip():
            self.dismiss(event.value)

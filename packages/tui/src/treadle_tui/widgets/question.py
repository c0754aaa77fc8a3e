"""A dialog that shows some lines, and takes one of a few keys as the answer."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen

from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.widgets.keys_line import key_words
from treadle_tui.widgets.styled_text import StyledText

LINES = 12
"""The most lines that a dialog shows."""


class Question(ModalScreen[str]):
    """Closes with the key that was pressed, which is `escape` for no answer."""

    AUTO_FOCUS: ClassVar[str | None] = None

    def __init__(self, title: str, lines: Sequence[str], answers: Mapping[str, str]) -> None:
        super().__init__()
        self._title = title
        self._said = lines
        self._answers = answers
        self._text = StyledText(id="question")

    def compose(self) -> ComposeResult:
        """Yield the text."""
        with Vertical(id="dialog", classes="box"):
            yield self._text

    def on_mount(self) -> None:
        """Show the text."""
        self._write()

    def on_resize(self) -> None:
        """Wrap the text for the new width."""
        self.call_after_refresh(self._write)

    def _write(self) -> None:
        lines: list[Spans] = [(Span(self._title, "bold"),), ()]
        lines += [(Span(line, "warn"),) for line in self._said[:LINES]]
        if len(self._said) > LINES:
            lines.append((Span(f"and {len(self._said) - LINES:,} more", "dim"),))
        lines += [(), key_words({**self._answers, "esc": "leave"})]
        self._text.show_whole(lines)

    def on_key(self, event: Key) -> None:
        """Close with an answer; ignore other keys."""
        event.stop()
        if event.key in self._answers or event.key == "escape":
            self.dismiss(event.key)

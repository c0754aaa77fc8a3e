"""An input line that never draws control characters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input

from treadle.wire.shown import clean_json
from treadle_tui.core.draw.text import bare

LONGEST = 200_000
"""The most characters of a line: each key measures the whole of it, 0.1 s for so many and 0.7 s for a million."""


class Offer(Suggester):
    """Suggests a completion of the line after the cursor."""

    def __init__(self, complete: Callable[[str], str | None]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        """Return the completed line."""
        return self._complete(value)


class LineInput(Input):
    """Removes characters that move the cursor, set a title or change the writing direction, whatever their source.

    Textual draws them unchanged, and completions contain texts that other people wrote. Pasted text becomes a single
    line.
    """

    @dataclass
    class Refused(Message):
        """A text was left out because it would make the line too long."""

        characters: int

        def __str__(self) -> str:
            return f"the text of {self.characters:,} characters is too long: a line takes {LONGEST:,}"

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a part of the text; typed and pasted text comes through here. Too long a text is left out."""
        if len(self.value) - abs(end - start) + len(text) > LONGEST:
            self.post_message(self.Refused(len(text)))
        else:
            super().replace(self.fit(text), start, end)

    def fit(self, text: str) -> str:
        """Return a text as it may be in the line."""
        return bare(text)

    def validate_value(self, value: str) -> str:
        """Return a newly set text as it may be in the line."""
        return self.fit(value)

    def validate__suggestion(self, offered: str) -> str:
        """Return a suggestion, or nothing if it can't be drawn unchanged."""
        return offered if self.fit(offered) == offered else ""

    def _on_paste(self, event: events.Paste) -> None:
        super()._on_paste(events.Paste(" ".join(event.text.splitlines())))
        event.stop()
        event.prevent_default()


class JsonInput(LineInput):
    """Takes JSON, which keeps its meaning without line ends and with escapes."""

    def fit(self, text: str) -> str:
        """Return a text in which removed characters become JSON escapes where possible."""
        return bare(clean_json(text))


def shared_beginning(texts: Sequence[str]) -> str:
    """Return the common prefix of these texts, which is that of the smallest and the largest."""
    first, last = min(texts), max(texts)
    end = next((place for place, char in enumerate(first) if last[place : place + 1] != char), len(first))
    return first[:end]

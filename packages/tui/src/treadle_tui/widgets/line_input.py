"""A line that one types in, which draws nothing that a terminal would obey."""

from collections.abc import Callable, Sequence

from textual import events
from textual.suggester import Suggester
from textual.widgets import Input

from treadle.wire.shown import clean_json
from treadle_tui.core.draw.text import bare


class Offer(Suggester):
    """Offers behind the cursor what completes the line."""

    def __init__(self, complete: Callable[[str], str | None]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        """Return the line that this one could become."""
        return self._complete(value)


class LineInput(Input):
    """Has no character that moves a cursor, sets a title or turns the direction, wherever its text comes from.

    Textual draws such ones as they are, and what is offered to complete a line is what other people wrote. What is
    pasted is one line.
    """

    def replace(self, text: str, start: int, end: int) -> None:
        """Put a text in the place of another: what is typed and pasted comes by here."""
        super().replace(self.fit(text), start, end)

    def fit(self, text: str) -> str:
        """Return a text as it may stand in the line."""
        return bare(text)

    def validate_value(self, value: str) -> str:
        """Return what is put here as it may stand here."""
        return self.fit(value)

    def validate__suggestion(self, offered: str) -> str:
        """Return what is offered, or nothing where it can't be drawn as it is."""
        return offered if self.fit(offered) == offered else ""

    def _on_paste(self, event: events.Paste) -> None:
        super()._on_paste(events.Paste(" ".join(event.text.splitlines())))
        event.stop()
        event.prevent_default()


class JsonInput(LineInput):
    """Takes JSON, which means the same without its line ends, and with escapes."""

    def fit(self, text: str) -> str:
        """Return a text with what it has to lose as JSON's escapes."""
        return bare(clean_json(text))


def shared_beginning(texts: Sequence[str]) -> str:
    """Return the beginning that all of them have; between the first and the last by order there is none shorter."""
    first, last = min(texts), max(texts)
    end = next((place for place, char in enumerate(first) if last[place : place + 1] != char), len(first))
    return first[:end]

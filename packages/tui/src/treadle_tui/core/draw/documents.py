"""Long texts for a reader: lines are only built when they are shown, however many there are."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.text import Span, Spans, Tone, plain

LONGEST = 4_000
"""The most characters of a line that are shown."""

MOST_SEARCHED = 200_000
"""The most lines or values that a search looks at: a fifth of a second, in which nothing else is drawn."""

MOST_FOUND = 1_000
"""The number of matches at which a search stops."""


class Document(Protocol):
    """A sequence of lines."""

    def __len__(self) -> int:
        """Return the number of lines."""

    def __getitem__(self, index: int, /) -> Spans:
        """Return a line."""


class Found(NamedTuple):
    """The matches of a search."""

    places: Sequence[Any]
    """Line numbers, or whatever the document's `reveal` takes."""
    is_all: bool = True
    """False if the search stopped early."""


@runtime_checkable
class Folding(Protocol):
    """A document with parts that can be folded away, which a search also covers."""

    def toggle(self, index: int) -> bool:
        """Unfold or fold the block that begins on a line; return whether there is one."""

    def find(self, pattern: re.Pattern[str]) -> Found:
        """Return where the pattern matches, including folded parts."""

    def reveal(self, place: Any) -> int:
        """Unfold what hides a place, and return its line."""


class TextLines:
    """A plain text, with a tone for each line."""

    def __init__(self, text: str, glyphs: Glyphs, *, tone: Callable[[str], Tone] = lambda _: "plain") -> None:
        self._lines = text.split("\n")
        self._glyphs = glyphs
        self._tone = tone

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self._lines)

    def __getitem__(self, index: int, /) -> Spans:
        """Return a line."""
        return (Span(shortened(self._lines[index], self._glyphs), self._tone(self._lines[index])),)


def shortened(text: str, glyphs: Glyphs) -> str:
    """Return the beginning of a text, cleaned, and its length if it is cut."""
    head = glyphs.clean(text.removesuffix("\r"), limit=LONGEST)
    return head if len(text) <= LONGEST else f"{head}{glyphs.ellipsis} {len(text):,} characters"


def find(document: Document, pattern: re.Pattern[str]) -> Found:
    """Return the lines that match a pattern, or what a folding document's own search finds."""
    if isinstance(document, Folding):
        return document.find(pattern)
    places: list[int] = []
    for index in range(min(len(document), MOST_SEARCHED)):
        if pattern.search(plain(document[index])):
            places.append(index)
            if len(places) >= MOST_FOUND:
                return Found(places, is_all=False)
    return Found(places, is_all=len(document) <= MOST_SEARCHED)


def reveal(document: Document, place: Any) -> int:
    """Return the line of a place that `find` returned, unfolding it if necessary."""
    return document.reveal(place) if isinstance(document, Folding) else int(place)

"""Long texts as a reader shows them: lines that are made when they are looked at, however many there are."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.text import Span, Spans, Tone, plain

LONGEST = 4_000
"""How much of one line is shown."""

MOST_SEARCHED = 200_000
"""How many lines or values one search looks through: a fifth of a second, in which nothing else is drawn."""

MOST_FOUND = 1_000
"""After how many places a search is content."""


class Document(Protocol):
    """Lines by their number."""

    def __len__(self) -> int:
        """Return how many lines there are."""

    def __getitem__(self, index: int, /) -> Spans:
        """Return a line."""


class Found(NamedTuple):
    """Where a search found something."""

    places: Sequence[Any]
    """Line numbers, or whatever the document's `reveal` takes."""
    is_all: bool = True
    """False when the search stopped early."""


@runtime_checkable
class Folding(Protocol):
    """A document of which parts are folded away; it looks into these too."""

    def toggle(self, index: int) -> bool:
        """Unfold or fold what begins in a line; return whether there is anything to."""

    def find(self, pattern: re.Pattern[str]) -> Found:
        """Return where the pattern is, in folded parts too."""

    def reveal(self, place: Any) -> int:
        """Unfold what is around a place, and return its line."""


class TextLines:
    """A text as it is, with a tone for each line."""

    def __init__(self, text: str, glyphs: Glyphs, *, tone: Callable[[str], Tone] = lambda _: "plain") -> None:
        self._lines = text.split("\n")
        self._glyphs = glyphs
        self._tone = tone

    def __len__(self) -> int:
        """Return how many lines there are."""
        return len(self._lines)

    def __getitem__(self, index: int, /) -> Spans:
        """Return a line."""
        return (Span(shortened(self._lines[index], self._glyphs), self._tone(self._lines[index])),)


def shortened(text: str, glyphs: Glyphs) -> str:
    """Return the clean beginning of a text, and how long it is when that is not all."""
    head = glyphs.clean(text.removesuffix("\r"), limit=LONGEST)
    return head if len(text) <= LONGEST else f"{head}{glyphs.ellipsis} {len(text):,} characters"


def find(document: Document, pattern: re.Pattern[str]) -> Found:
    """Return the lines in which a pattern is, or what a folding document's own search finds."""
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
    """Return the line of a place that `find` returned; it is unfolded where that is needed."""
    return document.reveal(place) if isinstance(document, Folding) else int(place)

"""Text made of toned spans: what the core draws, and what widgets turn into colours.

Everything that came from outside goes through `clean` first, so no payload can move the cursor, set the
terminal's title, turn the reading direction round or pose as markup.
"""

import unicodedata
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from rich.cells import cell_len, set_cell_size

from treadle.wire import shown

Tone: TypeAlias = Literal[
    "plain", "dim", "faint", "bold", "title", "accent", "ok", "run", "wait", "hold", "warn", "bad", "match"
]
"""What a span means; a theme gives each a colour, and none is ever told apart by colour alone.

`match`, what one looked for, has no colour: it is shown reversed.
"""


class Span(NamedTuple):
    """A piece of text with one tone."""

    text: str
    tone: Tone = "plain"
    link: str = ""
    """An address that a terminal opens (OSC 8), where it knows such links; elsewhere it is plain text."""


Spans: TypeAlias = tuple[Span, ...]

SHOWN = 512
"""Characters of one value that are looked at; what is longer than a line is never drawn."""


MARKED = 8
"""Characters that a cell may be made of before a text is cut earlier than it must: letters with marks, joined emoji."""


BLANKS = "\t\n\r"
KEPT = f"{BLANKS}\u200c\u200d"


def clean(text: str, *, limit: int = SHOWN, ascii_only: bool = False) -> str:
    """Return the first `limit` characters of `text` as `treadle.wire.shown.clean` does."""
    return shown.clean(text, limit=limit, ascii_only=ascii_only)


def bare(text: str) -> str:
    """Return a text without what a terminal would obey; tabs and line ends are blanks.

    Joiners stay wherever they are: who types a word or an emoji with one types what stands behind it later.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if char in BLANKS else char for char in text if char in KEPT or not _obeyed(char))


def _obeyed(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def width(spans: Iterable[Span]) -> int:
    """Return how many cells the spans take."""
    return sum(cell_len(span.text) for span in spans)


def clip(text: str, cells: int, *, ellipsis: str = "…") -> str:
    """Return `text` in at most `cells` cells, with an ellipsis where something is left out."""
    if cells <= 0:
        return ""
    # What lies far behind the edge is never measured.
    if len(text) <= cells * MARKED and cell_len(text) <= cells:
        return text
    if cells <= len(ellipsis):
        return ellipsis
    return set_cell_size(text[: (cells + 1) * MARKED], cells - len(ellipsis)).rstrip() + ellipsis


def fit(
    spans: Spans, cells: int, *, right: bool = False, keep_end: bool = False, stem: int = 0, ellipsis: str = "…"
) -> Spans:
    """Return the spans in exactly `cells` cells: clipped, or padded on the side that `right` leaves.

    With `keep_end` it is the beginning that is left out, behind the first `stem` spans if there is room for them.
    """
    taken = width(spans)
    if taken > cells:
        if keep_end and 0 < width(spans[:stem]) < cells:
            return (*spans[:stem], *fit(spans[stem:], cells - width(spans[:stem]), keep_end=True, ellipsis=ellipsis))
        if keep_end:
            return _reversed(_clipped(_reversed(spans), cells, ellipsis))
        return _clipped(spans, cells, ellipsis)
    if taken == cells:
        return spans
    gap = Span(" " * (cells - taken))
    return (gap, *spans) if right else (*spans, gap)


def _clipped(spans: Spans, cells: int, ellipsis: str) -> Spans:
    kept: list[Span] = []
    left = cells
    for index, (text, tone, link) in enumerate(spans):
        size = cell_len(text)
        more = any(later.text for later in spans[index + 1 :])
        if size < left or (size == left and not more):
            kept.append(Span(text, tone, link))
            left -= size
            continue
        part = clip(text + ("." if more else ""), left, ellipsis=ellipsis)
        kept.append(Span(part + " " * (left - cell_len(part)), tone, link))
        break
    return tuple(kept)


def _reversed(spans: Spans) -> Spans:
    return tuple(Span(text[::-1], tone, link) for text, tone, link in reversed(spans))


def joined(parts: Iterable[Spans], *, gap: str = " ") -> Spans:
    """Return the non-empty parts one after another with `gap` between them."""
    result: list[Span] = []
    for part in parts:
        if not part:
            continue
        if result:
            result.append(Span(gap))
        result.extend(part)
    return tuple(result)


def plain(spans: Iterable[Span]) -> str:
    """Return the text without its tones."""
    return "".join(span.text for span in spans)

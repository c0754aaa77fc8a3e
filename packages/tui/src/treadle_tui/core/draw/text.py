"""Text as spans with tones, which the core produces and widgets turn into colours.

Everything from outside goes through `clean` first, so that no payload can move the cursor, set the terminal's title,
reverse the reading direction or pass for markup.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from rich.cells import cell_len, set_cell_size, split_text

from treadle.wire import shown

Tone: TypeAlias = Literal[
    "plain", "dim", "faint", "bold", "title", "accent", "ok", "run", "wait", "hold", "warn", "bad", "match"
]
"""What a span means. A theme gives each tone a colour, but colour is never the only difference.

`match`, for what was searched for, has no colour: it is shown in reverse.
"""


class Span(NamedTuple):
    """A piece of text with one tone."""

    text: str
    tone: Tone = "plain"
    link: str = ""
    """An address that the terminal can open (OSC 8), if it supports links; otherwise it is plain text."""


Spans: TypeAlias = tuple[Span, ...]

SHOWN = 512
"""The most characters of a value that are looked at; nothing longer than a line is ever drawn."""


MARKED = 8
"""The most characters that a cell is assumed to consist of when text is cut: letters with marks, joined emoji."""


BLANKS = "\t\n\r"
KEPT = f"{BLANKS}\u200c\u200d"

_PICTURED = re.compile("[\ufe0f\U0001f3fb-\U0001f3ff]+|\u200d(?=[\u2190-\u2bff\U0001f000-\U0001ffff])")
"""Characters that select or join emoji, or set their skin tone. Joiners between letters are kept."""


def clean(text: str, *, limit: int = SHOWN, ascii_only: bool = False) -> str:
    """Return the first `limit` characters of `text`, cleaned by `treadle.wire.shown.clean`.

    Characters that join emoji or ask for coloured ones are removed too: terminals differ in the width of the result,
    and the line might become longer than the screen is wide.
    """
    cleaned = shown.clean(text, limit=limit, ascii_only=ascii_only)
    return cleaned if cleaned.isascii() else _PICTURED.sub("", cleaned)


def bare(text: str) -> str:
    """Return a text without control characters, and with tabs and line ends as blanks.

    Joiners are always kept: a user who types one is about to type what it joins.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if char in BLANKS else char for char in text if char in KEPT or not _obeyed(char))


def _obeyed(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def width(spans: Iterable[Span]) -> int:
    """Return how many cells the spans take."""
    return sum(cell_len(span.text) for span in spans)


def clip(text: str, cells: int, *, keep_end: bool = False, ellipsis: str = "…") -> str:
    """Return `text` in at most `cells` cells, with an ellipsis in place of what is cut at the end or beginning."""
    if cells <= 0:
        return ""
    # Don't measure what is far beyond the edge.
    if len(text) <= cells * MARKED and cell_len(text) <= cells:
        return text
    room, near = cells - len(ellipsis), (cells + 1) * MARKED
    if room <= 0:
        return ellipsis
    if keep_end:
        end = text[-near:].lstrip("\u200d")
        return ellipsis + split_text(end, cell_len(end) - room)[1].lstrip()
    return set_cell_size(text[:near], room).rstrip() + ellipsis


def fit(
    spans: Spans, cells: int, *, right: bool = False, keep_end: bool = False, stem: int = 0, ellipsis: str = "…"
) -> Spans:
    """Return the spans in exactly `cells` cells: clipped, or padded on the right, or on the left with `right`.

    With `keep_end` the beginning is cut. The first `stem` spans are kept before the cut if there is room for them; they
    are only shortened by what they take beyond half of the cells.
    """
    taken = width(spans)
    if taken > cells:
        if keep_end and 0 < (begin := width(spans[:stem])) < cells:
            begin = min(begin, max(cells // 2, cells - width(spans[stem:])))
            stay = fit(spans[:stem], begin, keep_end=True, ellipsis=ellipsis)
            return (*stay, *fit(spans[stem:], cells - begin, keep_end=True, ellipsis=ellipsis))
        return _clipped(spans, cells, keep_end=keep_end, ellipsis=ellipsis)
    if taken == cells:
        return spans
    gap = Span(" " * (cells - taken))
    return (gap, *spans) if right else (*spans, gap)


def _clipped(spans: Spans, cells: int, *, keep_end: bool, ellipsis: str) -> Spans:
    kept: list[Span] = []
    left = cells
    inwards = spans[::-1] if keep_end else spans
    for index, (text, tone, link) in enumerate(inwards):
        size = cell_len(text)
        more = "." if any(further.text for further in inwards[index + 1 :]) else ""
        if size < left or (size == left and not more):
            kept.append(Span(text, tone, link))
            left -= size
            continue
        part = clip(more + text if keep_end else text + more, left, keep_end=keep_end, ellipsis=ellipsis)
        kept.append(Span(part, tone, link))
        left -= cell_len(part)
        break
    return (*(reversed(kept) if keep_end else kept), *((Span(" " * left),) if left else ()))


def joined(parts: Iterable[Spans], *, gap: str = " ") -> Spans:
    """Return the non-empty parts, joined by `gap`."""
    result: list[Span] = []
    for part in parts:
        if not part:
            continue
        if result:
            result.append(Span(gap))
        result.extend(part)
    return tuple(result)


def plain(spans: Iterable[Span]) -> str:
    """Return the text without tones."""
    return "".join(span.text for span in spans)

"""Text made of toned spans: what the core draws, and what widgets turn into colours.

Everything that came from outside goes through `clean` first, so no payload can move the cursor, set the
terminal's title, turn the reading direction round or pose as markup.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from rich.cells import cell_len, set_cell_size

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


Spans: TypeAlias = tuple[Span, ...]

_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@lru_cache(maxsize=4096)
def _shown(char: str, *, ascii_only: bool) -> str:
    if unicodedata.category(char) not in _ESCAPED and (char.isascii() or not ascii_only):
        return char
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clean(text: str, *, limit: int = 512, ascii_only: bool = False) -> str:
    r"""Return at most the first `limit` characters of `text` with everything that a terminal would obey spelt out.

    Control characters (C0, C1, DEL), bidi marks and overrides, zero-width and unassigned characters and lone
    surrogates become escapes such as `\x1b` and `\u202e`. With `ascii_only` so does whatever is not ASCII.
    """
    head = text[:limit]
    if head.isascii() and head.isprintable():
        return head
    return "".join(_shown(char, ascii_only=ascii_only) for char in head)


def width(spans: Iterable[Span]) -> int:
    """Return how many cells the spans take."""
    return sum(cell_len(span.text) for span in spans)


def clip(text: str, cells: int, *, ellipsis: str = "…") -> str:
    """Return `text` in at most `cells` cells, with an ellipsis where something is left out."""
    if cells <= 0:
        return ""
    # A character takes at most two cells, so what lies far behind the edge is never measured.
    if len(text) <= cells * 2 and cell_len(text) <= cells:
        return text
    if cells <= len(ellipsis):
        return ellipsis
    return set_cell_size(text[: cells + 1], cells - len(ellipsis)).rstrip() + ellipsis


def fit(spans: Spans, cells: int, *, right: bool = False, keep_end: bool = False, ellipsis: str = "…") -> Spans:
    """Return the spans in exactly `cells` cells: clipped, or padded on the side that `right` leaves.

    With `keep_end` it is the beginning that is left out.
    """
    taken = width(spans)
    if taken > cells:
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
    for index, (text, tone) in enumerate(spans):
        size = cell_len(text)
        more = any(later.text for later in spans[index + 1 :])
        if size < left or (size == left and not more):
            kept.append(Span(text, tone))
            left -= size
            continue
        part = clip(text + ("." if more else ""), left, ellipsis=ellipsis)
        kept.append(Span(part + " " * (left - cell_len(part)), tone))
        break
    return tuple(kept)


def _reversed(spans: Spans) -> Spans:
    return tuple(Span(text[::-1], tone) for text, tone in reversed(spans))


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

"""Lines cut to a width, and lines with search matches marked."""

import re
from collections.abc import Iterable
from itertools import accumulate

from rich.cells import cell_len, chop_cells

from treadle_tui.core.draw.text import Span, Spans, fit, plain, width

LEAST_HUNG = 12
"""With fewer cells than this next to an indent, nothing is indented."""


def wrapped(spans: Spans, cells: int, *, indent: int = 0) -> list[Spans]:
    """Return a line as the one or more lines that it takes in `cells` cells.

    With an indent, it is cut between words, and all lines but the first are indented.
    """
    text = plain(spans)
    if len(text) * 2 <= cells or cells <= 1:
        return [spans]
    if indent and cells - indent >= LEAST_HUNG:
        first, *rest = cut(spans, _between_words(text, cells, indent))
        return [first, *((Span(" " * indent), *part) for part in rest)]
    ends = list(accumulate(len(part) for part in chop_cells(text, cells)))
    return cut(spans, ends) or [spans]


def _between_words(text: str, cells: int, indent: int) -> list[int]:
    """Return where the wrapped lines of a text end: after the last blank that fits, or within an overlong word."""
    ends: list[int] = []
    start, room = 0, cells
    while cell_len(text[start:]) > room:
        fits = start + len(chop_cells(text[start:], room)[0])
        blank = text.rfind(" ", start + (0 if ends else indent), fits)
        start = blank + 1 if blank > start else fits
        ends.append(start)
        room = cells - indent
    return [*ends, len(text)]


_ENDS = re.compile(r" {2,}|, |; |: ")
"""Where a line of facts may be cut: before the next fact, or before an addition to the last one."""

_SCRAP = re.compile(r"(?:^| {2,}|, |; |: )\S{1,2}$")
"""A word too short to be a fact, such as the first of several that are separated by commas."""


def shortened(spans: Spans, cells: int, *, ellipsis: str = "…") -> Spans:
    """Return a line of facts in at most `cells` cells: as many whole facts as there is room for.

    Facts are separated by punctuation, by two blanks, or by a span that is a blank. If whole facts would fill less than
    a third of the room, the next one is cut, with an ellipsis.
    """
    if width(spans) <= cells:
        return spans
    text = plain(spans)
    starts = accumulate((len(span.text) for span in spans), initial=0)
    gaps = (start for start, span in zip(starts, spans, strict=False) if span.text == " ")
    ends = (*(found.start() for found in _ENDS.finditer(text)), *gaps)
    fitting = [end for end in ends if cell_len(text[:end]) <= cells and not _SCRAP.search(text[:end])]
    end = max(fitting, default=0)
    if cell_len(text[:end]) * 3 < cells:
        return fit(spans, cells, ellipsis=ellipsis)
    return cut(spans, [end])[0]


def cut(spans: Spans, ends: Iterable[int]) -> list[Spans]:
    """Return the parts of a line that end at these character positions."""
    parts: list[Spans] = []
    left, start = list(spans), 0
    for end in ends:
        part: list[Span] = []
        room = end - start
        while left and room >= len(left[0].text):
            room -= len(left[0].text)
            part.append(left.pop(0))
        if left and room:
            text, tone, _ = left[0]
            part.append(Span(text[:room], tone))
            left[0] = Span(text[room:], tone)
        parts.append(tuple(part))
        start = end
    return parts


def marked(spans: Spans, pattern: re.Pattern[str] | None) -> Spans:
    """Return a line in which every match of `pattern` has the tone `match`."""
    if pattern is None:
        return spans
    text = plain(spans)
    ends: list[int] = []
    for match in pattern.finditer(text):
        if match.end() > match.start():
            ends += [match.start(), match.end()]
    if not ends:
        return spans
    parts = cut(spans, [*ends, len(text)])
    return tuple(
        Span(text, "match" if place % 2 else tone) for place, part in enumerate(parts) for text, tone, _ in part if text
    )

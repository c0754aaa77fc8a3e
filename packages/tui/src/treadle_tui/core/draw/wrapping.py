"""Lines cut to the screen's width, and with what one looked for set apart in them."""

import re
from collections.abc import Iterable
from itertools import accumulate

from rich.cells import chop_cells

from treadle_tui.core.draw.text import Span, Spans, plain


def wrapped(spans: Spans, cells: int) -> list[Spans]:
    """Return a line as the lines that it takes in `cells` cells; at least one."""
    text = plain(spans)
    if len(text) * 2 <= cells or cells <= 1:
        return [spans]
    ends = list(accumulate(len(part) for part in chop_cells(text, cells)))
    return cut(spans, ends) or [spans]


def cut(spans: Spans, ends: Iterable[int]) -> list[Spans]:
    """Return the parts of a line that end at these characters."""
    parts: list[Spans] = []
    left, start = list(spans), 0
    for end in ends:
        part: list[Span] = []
        room = end - start
        while left and room >= len(left[0].text):
            room -= len(left[0].text)
            part.append(left.pop(0))
        if left and room:
            text, tone = left[0]
            part.append(Span(text[:room], tone))
            left[0] = Span(text[room:], tone)
        parts.append(tuple(part))
        start = end
    return parts


def marked(spans: Spans, pattern: re.Pattern[str] | None) -> Spans:
    """Return a line with every match of `pattern` in the tone `match`."""
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
        Span(text, "match" if place % 2 else tone) for place, part in enumerate(parts) for text, tone in part if text
    )

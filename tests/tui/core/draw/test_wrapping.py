"""Lines cut to a width, and what one looked for set apart in them."""

from hypothesis import given
from hypothesis import strategies as st

from treadle_tui.core.draw.text import Span, plain, width
from treadle_tui.core.draw.wrapping import marked, wrapped


@given(st.lists(st.text(), max_size=4), st.integers(2, 30))
def test_wrapping_loses_nothing_and_keeps_within_the_width(parts: list[str], cells: int) -> None:
    spans = tuple(Span(part) for part in parts)

    rows = wrapped(spans, cells)

    assert "".join(plain(row) for row in rows) == "".join(parts)
    assert all(width(row) <= cells for row in rows if plain(row).isascii())


@given(st.lists(st.text("abAB. ", max_size=6), max_size=4), st.text("abAB.", min_size=1, max_size=2))
def test_what_is_looked_for_is_set_apart_and_nothing_else(parts: list[str], needle: str) -> None:
    import re

    pattern = re.compile(re.escape(needle), re.IGNORECASE)
    spans = marked(tuple(Span(part) for part in parts), pattern)
    text = "".join(parts)

    assert plain(spans) == text
    found = "".join(span.text for span in spans if span.tone == "match")
    assert found == "".join(pattern.findall(text))

"""Lines cut to a width, and what one looked for set apart in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_tui.core.draw.text import Span, plain, width
from treadle_tui.core.draw.wrapping import marked, shortened, wrapped


@given(st.lists(st.text(), max_size=4), st.integers(2, 30))
def test_wrapping_loses_nothing_and_keeps_within_the_width(parts: list[str], cells: int) -> None:
    spans = tuple(Span(part) for part in parts)

    rows = wrapped(spans, cells)

    assert "".join(plain(row) for row in rows) == "".join(parts)
    assert all(width(row) <= cells for row in rows if plain(row).isascii())


@given(st.lists(st.text("abc", min_size=1, max_size=10), max_size=40), st.integers(26, 60), st.integers(1, 14))
def test_wrapping_with_an_indent_loses_no_word_and_cuts_none(words: list[str], cells: int, indent: int) -> None:
    text = " " * indent + " ".join(words)

    first, *rest = wrapped((Span(text),), cells, indent=indent)

    assert plain(first) + "".join(plain(row)[indent:] for row in rest) == text
    assert all(plain(row).startswith(" " * indent) for row in rest)
    assert all(width(row) <= cells for row in (first, *rest))
    assert " ".join(plain(row) for row in (first, *rest)).split() == words


def test_a_word_that_fits_in_no_line_is_cut_and_where_it_is_narrow_nothing_is_indented() -> None:
    long = (Span("key " + "x" * 40),)

    assert [plain(row) for row in wrapped(long, 20, indent=4)] == [
        "key " + "x" * 16,
        "    " + "x" * 16,
        "    " + "x" * 8,
    ]
    assert [plain(row) for row in wrapped(long, 15, indent=4)][1] == "x" * 15


@given(st.lists(st.text("abAB. ", max_size=6), max_size=4), st.text("abAB.", min_size=1, max_size=2))
def test_what_is_looked_for_is_set_apart_and_nothing_else(parts: list[str], needle: str) -> None:
    import re

    pattern = re.compile(re.escape(needle), re.IGNORECASE)
    spans = marked(tuple(Span(part) for part in parts), pattern)
    text = "".join(parts)

    assert plain(spans) == text
    found = "".join(span.text for span in spans if span.tone == "match")
    assert found == "".join(pattern.findall(text))


@pytest.mark.parametrize(
    ("said", "cells", "told"),
    [
        ("7 Failures  2 groups, 3 tasks failed, 2 wait for another try", 54, "7 Failures  2 groups, 3 tasks failed"),
        ("enter shows the tasks; r, c and S mean all of the group", 54, "enter shows the tasks"),
        ("2 Tasks  lab:tasks:add  830   partial: not all tasks were searched", 54,
         "2 Tasks  lab:tasks:add  830   partial"),
        ("2 Tasks  lab:tasks:add  830   2 marked", 54, "2 Tasks  lab:tasks:add  830   2 marked"),
        ("2 Tasks  a-name-that-has-no-room-at-all-in-this-line", 30, "2 Tasks  a-name-that-has-no-ro…"[:29] + "…"),
    ],
)  # fmt: skip
def test_a_line_of_facts_ends_with_a_whole_one(said: str, cells: int, told: str) -> None:
    assert plain(shortened((Span(said[:9], "title"), Span(said[9:])), cells)).rstrip() == told


@given(st.lists(st.text("ab ,;:", max_size=20), max_size=6), st.integers(1, 40))
def test_a_shortened_line_is_never_longer_than_its_room(parts: list[str], cells: int) -> None:
    spans = tuple(Span(part) for part in parts)

    assert width(shortened(spans, cells)) <= cells or width(spans) <= cells


def test_a_line_of_facts_may_end_at_a_blank_between_two_of_them() -> None:
    spans = tuple(Span(text) for text in ("of 10", "  ", "✗ 1 failed", " ", "● 1 running"))

    assert plain(shortened(spans, 20)) == "of 10  ✗ 1 failed"

"""What comes from outside is spelt out, and what is drawn takes exactly the cells that it may."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_tui.core.draw.text import Span, clean, fit, plain, width

HOSTILE = {
    "markup": ("[bold red]x[/]", "[bold red]x[/]"),
    "colour": ("\x1b[31mred", r"\x1b[31mred"),
    "title": ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
    "link": ("\x1b]8;;http://evil\x1b\\click", "\\x1b]8;;http://evil\\x1b\\click"),
    "clipboard": ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
    "csi in one byte": ("\x9b2J", r"\x9b2J"),
    "bidi override": ("abc\u202etxt.exe", r"abc\u202etxt.exe"),
    "isolate": ("\u2066x\u2069", r"\u2066x\u2069"),
    "nul": ("a\x00b", r"a\x00b"),
    "newline": ("a\nb\r\tc", r"a\nb\r\tc"),
    "zero width": ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
    "surrogate": ("\ud800", r"\ud800"),
    "delete": ("\x7f", r"\x7f"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_spelt_out(name: str) -> None:
    text, expected = HOSTILE[name]

    assert clean(text) == expected


@given(st.text())
def test_no_character_that_a_terminal_obeys_comes_through(text: str) -> None:
    shown = clean(text)

    assert not [char for char in shown if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]


@given(st.text())
def test_in_ascii_nothing_but_printable_ascii_comes_through(text: str) -> None:
    shown = clean(text, ascii_only=True)

    assert not shown or (shown.isascii() and shown.isprintable())


def test_a_huge_text_costs_only_what_is_shown_of_it() -> None:
    assert len(clean("\x00" * 50_000_000, limit=100)) == 400


JOINED = ["👩\u200d👩\u200d👧", "क्\u200dष", "e\u0301", "🇩🇪", "⚠\ufe0f", "\u0301", "語", "a", " "]


@given(
    st.lists(st.text() | st.lists(st.sampled_from(JOINED), max_size=20).map("".join), max_size=4),
    st.integers(1, 40),
    st.booleans(),
    st.booleans(),
    st.integers(0, 4),
)
def test_fitted_text_takes_exactly_its_cells(
    texts: list[str], cells: int, right: bool, keep_end: bool, stem: int
) -> None:
    spans = tuple(Span(clean(text)) for text in texts)

    assert width(fit(spans, cells, right=right, keep_end=keep_end, stem=stem)) == cells


def test_wide_characters_are_not_cut_in_half() -> None:
    assert plain(fit((Span("日本語"),), 4)) == "日… "


def test_letters_with_marks_take_all_of_the_room_that_there_is() -> None:
    marked = "e\u0301" * 40

    assert plain(fit((Span(marked),), 20)) == "e\u0301" * 19 + "…"
    assert plain(fit((Span("e\u0301" * 15),), 20)) == "e\u0301" * 15 + " " * 5


def test_the_end_is_kept_where_it_tells_things_apart() -> None:
    assert plain(fit((Span("@global:"), Span("Rotate")), 9, keep_end=True)) == "…l:Rotate"


def test_a_name_that_is_cut_at_its_beginning_keeps_letters_and_their_marks_together() -> None:
    assert plain(fit((Span("cafe\u0301s"),), 3, keep_end=True)) == "…e\u0301s"
    assert plain(fit((Span("cafe\u0301s"),), 2, keep_end=True)) == "…s"
    assert plain(fit((Span("日本語"), Span("x")), 4, keep_end=True)) == "…語x"


@pytest.mark.parametrize(
    ("text", "drawn"),
    [("⚠\ufe0f late", "⚠ late"), ("👩\u200d👩\u200d👧", "👩👩👧"), ("🏳\ufe0f\u200d🌈", "🏳🌈"), ("👍\U0001f3fd", "👍")],
)
def test_no_character_is_drawn_wider_by_some_terminals_than_by_others(text: str, drawn: str) -> None:
    assert clean(text) == drawn
    assert width([Span(drawn)]) == sum(width([Span(char)]) for char in drawn)


def test_letters_that_are_joined_stay_so() -> None:
    assert clean("ශ්\u200dරී") == "ශ්\u200dරී"


def test_what_is_drawn_before_a_name_stays() -> None:
    assert plain(fit((Span("  └ "), Span("customer-17")), 9, keep_end=True, stem=1)) == "  └ …r-17"
    assert plain(fit((Span("  └ "), Span("customer-17")), 4, keep_end=True, stem=1)) == "…-17"
    assert plain(fit((Span("warehouse_eu:"), Span("recount")), 15, keep_end=True, stem=1)) == "…use_eu:recount"
    assert plain(fit((Span("warehouse_eu:"), Span("recount_all")), 15, keep_end=True, stem=1)) == "…se_eu:…unt_all"

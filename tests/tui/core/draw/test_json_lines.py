"""JSON as lines: folded where there is much of it, searched in all of it, and safe whatever it holds."""

import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_tui.core.draw.glyphs import ASCII, UNICODE
from treadle_tui.core.draw.json_lines import PORTION, UNFOLDED, JsonLines
from treadle_tui.core.draw.text import plain

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=40,
)


def texts(document: JsonLines) -> list[str]:
    return [plain(document[index]) for index in range(len(document))]


def unfold_all(document: JsonLines) -> None:
    while True:
        folded = [i for i, text in enumerate(texts(document)) if text.lstrip().startswith(UNICODE.folded)]
        if not folded:
            return
        document.toggle(folded[0])


@given(VALUES)
def test_unfolded_it_is_the_json_that_it_was(value: Any) -> None:
    document = JsonLines(value, UNICODE)
    unfold_all(document)

    text = "\n".join(line.replace(UNICODE.opened, " ", 1) for line in texts(document))

    # What a terminal would obey is spelt out, and then no JSON escape any more; everything else is as it was.
    if re.search(r"\\[xuU]", json.dumps(value, ensure_ascii=False)) is None and r"\x" not in text and r"\U" not in text:
        assert json.loads(text) == json.loads(json.dumps(value))


@given(VALUES, st.sampled_from([UNICODE, ASCII]), st.lists(st.integers(0, 200), max_size=8))
def test_10_nothing_that_a_terminal_obeys_comes_out_of_any_json(value: Any, glyphs: Any, toggled: list[int]) -> None:
    document = JsonLines(value, glyphs)
    for index in toggled:
        document.toggle(index)

    for text in texts(document):
        assert not [char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]
        assert text.isascii() or not glyphs.ascii_only


@given(VALUES, st.text(min_size=1, max_size=3))
def test_what_is_found_is_in_the_line_that_it_is_revealed_in(value: Any, needle: str) -> None:
    document = JsonLines(value, UNICODE)
    pattern = re.compile(re.escape(needle), re.IGNORECASE)

    for place in document.find(pattern).places:
        line = document.reveal(place)
        if needle.isprintable() and needle.isascii() and not set(needle) & set('"\\'):
            assert pattern.search(plain(document[line]))


def test_what_is_folded_away_is_found_and_unfolded() -> None:
    document = JsonLines({"rows": [{"name": f"row {number}"} for number in range(5000)]}, UNICODE)
    assert not any("row 4321" in text for text in texts(document))

    (place,) = document.find(re.compile("row 4321")).places

    assert "row 4321" in plain(document[document.reveal(place)])


def test_10_ten_megabytes_cost_what_the_first_lines_cost() -> None:
    document = JsonLines({"rows": [["x" * 100] * 10 for _ in range(100_000)], "text": "y" * 10_000_000}, UNICODE)

    assert len(document) < UNFOLDED + 2 * PORTION
    assert all(len(text) < 5000 for text in texts(document))
    assert any("10,000,000 characters" in text for text in texts(document))
    assert any("99,800 more" in text for text in texts(document))


@pytest.mark.parametrize("value", [2**63, -(2**64), 10**5000, float("inf"), {"a": 10**5000}], ids=range(5))
def test_10_numbers_of_any_size_are_shown(value: Any) -> None:
    assert all(text.isprintable() for text in texts(JsonLines(value, UNICODE)))


def test_10_json_a_hundred_thousand_deep_is_shown_and_searched() -> None:
    deep: Any = "here"
    for _ in range(100_000):
        deep = [deep]

    document = JsonLines(deep, UNICODE)

    assert len(document) > 3
    assert document.find(re.compile("here")).places


def test_a_container_is_folded_and_unfolded_by_its_first_or_last_line() -> None:
    document = JsonLines({"a": [1, 2]}, UNICODE)
    before = texts(document)

    assert document.toggle(1)
    assert texts(document)[1].endswith('"a": [ 2 items ]')
    assert document.toggle(1)
    assert texts(document) == before
    assert not document.toggle(2), "a number has nothing to unfold"

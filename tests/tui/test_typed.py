"""Bytes from a terminal become text in pieces of any size, and pastes bring no escapes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_tui.typed import BEGIN, END, Typed

BITS = st.sampled_from([BEGIN, END, BEGIN[:3], END[:4], "\x1b", "\x1b[A", "\x1b[31m", "q", "宽", "[201~", "\n"])


def read(data: bytes, cuts: list[int] | None = None) -> str:
    typed = Typed()
    ends = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]
    return "".join(typed.read(data[begin:end]) for begin, end in pairwise(ends))


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"\xffq", "\ufffdq"),
        ("ä".encode("latin-1"), ""),
        ("äq".encode("latin-1"), "\ufffdq"),
        (b"\x1b[A\x1b\x1b[B", "\x1b[A\x1b\x1b[B"),
        (f"{BEGIN}a{END}\x1b".encode(), f"{BEGIN}a{END}\x1b"),
        (f"{BEGIN}{END}".encode(), f"{BEGIN}{END}"),
        (f"{BEGIN}\x1b[31mred\x1b\x1b[0m\x1b{END}x".encode(), f"{BEGIN}[31mred[0m{END}x"),
        (f"{BEGIN}{BEGIN}\x1b[20x{END}\x1bq".encode(), f"{BEGIN}[200~[20x{END}\x1bq"),
    ],
)
def test_what_is_typed_stays_and_what_is_pasted_has_no_escapes(sent: bytes, text: str) -> None:
    assert read(sent) == text


@given(st.lists(BITS), st.lists(st.integers(0)))
def test_it_makes_no_difference_in_which_pieces_it_comes(bits: list[str], cuts: list[int]) -> None:
    data = "".join(bits).encode()

    assert read(data, cuts) == read(data)


@given(st.lists(BITS), st.lists(BITS))
def test_between_the_marks_of_a_paste_there_is_no_escape(before: list[str], within: list[str]) -> None:
    _, *pastes = read("".join([*before, BEGIN, *within, END]).encode()).split(BEGIN)

    ended = [paste.split(END)[0] for paste in pastes if END in paste]
    assert ended
    assert [paste for paste in ended if "\x1b" in paste] == []

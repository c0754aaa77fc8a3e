"""Which part of a long list is loaded, and on what its window hangs (behaviour 2)."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.frames import Window
from treadle.wire.pages import MOST_OF_PAGE
from treadle_tui.core.views.windows import MARGIN, WINDOW, Part, anchored, part_around


def key_of(index: int) -> str:
    return f"00000000-0000-7000-8000-{index:012x}"


def loaded(first: int, count: int, index: int) -> str | None:
    return key_of(index) if first <= index < first + count else None


@given(st.integers(0, 100_000), st.integers(1, 80), st.integers(0, 100_000), st.integers(0, 2000))
def test_2_the_loaded_part_always_holds_what_is_visible_and_stays_as_long_as_it_does(
    first: int, height: int, total: int, offset: int
) -> None:
    first = min(first, max(0, total - height))

    part = part_around(first, height, total, Part(offset * MARGIN, WINDOW))

    assert part.offset <= first
    assert part.end >= min(first + height, total)
    assert part.limit <= MOST_OF_PAGE
    assert part_around(first, height, total, part) == part


def test_2_going_on_from_what_is_loaded_hangs_the_window_on_a_row_of_it() -> None:
    def key_at(index: int) -> str | None:
        return loaded(0, 200, index)

    window = anchored(Part(100, WINDOW), Window(), key_at)

    assert (window.first, window.before, window.offset, window.limit) == (key_of(100), None, 0, WINDOW)


def test_2_going_back_hangs_it_on_the_row_behind_its_last() -> None:
    def key_at(index: int) -> str | None:
        return loaded(1000, 200, index)

    window = anchored(Part(900, WINDOW), Window(first=key_of(1000)), key_at)

    assert (window.first, window.before, window.offset) == (None, key_of(1100), 0)

"""Which part of a long list is loaded, and on what its window hangs (behaviour 2)."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.frames import Window
from treadle_tui.core.browse import Browse
from treadle_tui.core.windows import MARGIN, MOST, WINDOW, Part, anchored, part_around


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
    assert part.limit <= MOST
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


def test_2_a_jump_is_counted_from_the_head_once_and_then_hangs_on_its_first_row() -> None:
    browse = Browse()
    browse.select("@global:tasks:a")
    assert browse.look(90_000, 30, 100_000, lambda _: None)
    jumped = browse.want()
    assert jumped is not None
    assert jumped.window is not None
    offset = jumped.window.offset

    assert browse.arrived(offset, key_of(offset))

    settled = browse.want()
    assert settled is not None
    assert settled.window is not None
    assert (settled.window.first, settled.window.offset) == (key_of(offset), 0)
    assert not browse.arrived(offset, key_of(offset))
    assert not browse.look(90_000, 30, 100_000, lambda _: None)


def test_2_back_at_the_head_the_window_hangs_on_nothing_for_new_tasks_come_there() -> None:
    window = anchored(Part(0, WINDOW), Window(first=key_of(50)), lambda index: loaded(50, 200, index))

    assert (window.first, window.before, window.offset) == (None, None, 0)

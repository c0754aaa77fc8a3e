"""The cursor keeps to a row's key, whatever happens to the order around it."""

from hypothesis import given
from hypothesis import strategies as st

from treadle_tui.core.views.rows import Rows


def settled(keys: str, **more: int) -> Rows[str]:
    rows: Rows[str] = Rows()
    rows.pin()
    update(rows, keys, **more)
    return rows


def update(rows: Rows[str], keys: str, **more: int) -> None:
    rows.update(list(keys), {key: key.upper() for key in keys}, **more)


def shown(rows: Rows[str]) -> str:
    return "".join(rows.row_at(index) or "." for index in range(rows.count))


def test_the_cursor_begins_in_the_first_row() -> None:
    rows = settled("abc")

    assert rows.highlighted == "A"


def test_until_the_reader_is_here_the_cursor_stays_in_the_first_row() -> None:
    rows: Rows[str] = Rows()
    update(rows, "abc")

    update(rows, "xbc")

    assert (rows.highlighted, rows.tombstone) == ("X", None)


def test_the_cursor_stays_with_its_row_when_others_come_and_go() -> None:
    rows = settled("abcd")
    rows.go(2)

    update(rows, "xyzbc")

    assert (rows.highlighted, rows.index) == ("C", 4)


def test_a_row_that_left_leaves_a_tombstone_on_which_nothing_acts() -> None:
    rows = settled("abcd")
    rows.go(1)

    update(rows, "acd")

    assert shown(rows) == "ABCD"
    assert rows.tombstone == "B"
    assert rows.highlighted is None


def test_the_tombstone_goes_when_the_cursor_moves() -> None:
    rows = settled("abcd")
    rows.go(1)
    update(rows, "acd")

    rows.go(rows.index + 1)

    assert shown(rows) == "ACD"
    assert rows.highlighted == "C"


def test_from_a_tombstone_one_gets_to_the_row_above() -> None:
    rows = settled("abcd")
    rows.go(1)
    update(rows, "acd")

    rows.go(rows.index - 1)

    assert rows.highlighted == "A"


def test_a_row_that_comes_back_is_itself_again() -> None:
    rows = settled("abc")
    rows.go(1)
    update(rows, "ac")

    update(rows, "acb")

    assert rows.tombstone is None
    assert (rows.highlighted, rows.index) == ("B", 2)


def test_the_last_row_of_a_list_leaves_a_tombstone_too() -> None:
    rows = settled("a")

    update(rows, "")

    assert shown(rows) == "A"
    assert rows.highlighted is None


def test_rows_that_are_not_loaded_are_left_blank() -> None:
    rows = settled("cd", offset=2, total=6)

    assert shown(rows) == "..CD.."


def test_the_cursor_finds_its_row_when_the_part_it_jumped_to_is_loaded() -> None:
    rows = settled("ab", total=6)
    rows.go(5)
    assert rows.highlighted is None

    update(rows, "ef", offset=4, total=6)

    assert rows.highlighted == "F"


def test_a_cursor_outside_of_the_loaded_part_is_no_tombstone() -> None:
    rows = settled("abcd", total=100)
    rows.go(1)

    update(rows, "wxyz", offset=50, total=100)

    assert rows.tombstone is None
    assert rows.cursor == "b"


@given(
    st.lists(
        st.permutations("abcdefgh").flatmap(lambda keys: st.integers(0, 8).map(lambda size: keys[:size])), max_size=8
    ),
    st.lists(st.integers(-3, 3), max_size=8),
)
def test_what_is_highlighted_is_always_the_row_that_the_reader_chose(states: list[list[str]], moves: list[int]) -> None:
    rows = settled("abcdefgh")
    chosen = rows.highlighted

    for state, move in zip(states, moves, strict=False):
        update(rows, "".join(state))
        if rows.highlighted is not None and chosen is not None:
            assert rows.highlighted == chosen
        if chosen is not None and chosen.lower() not in state:
            assert rows.highlighted is None
        rows.go(rows.index + move)
        chosen = rows.highlighted if rows.tombstone is None else chosen
        assert 0 <= rows.index <= max(0, rows.count - 1)

"""How the room of a line is shared out among columns."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.mock import NOON
from treadle_tui.core.draw.columns import GAP, CellContext, Column, Placed, head, layout, line
from treadle_tui.core.draw.glyphs import UNICODE
from treadle_tui.core.draw.text import Span, plain

CONTEXT = CellContext(now=NOON, glyphs=UNICODE)


def column(title: str, cells: int, *, most: int = 0, rank: int = 0) -> Column[dict[str, str]]:
    return Column(title, cells, lambda row, _: (Span(row.get(title, "")),), most=most, rank=rank)


def chart(title: str, cells: int, *, most: int, rank: int = 0) -> Column[dict[str, str]]:
    return Column(title, cells, lambda *_: (), most=most, rank=rank, chart=lambda _, __, room: (Span("#" * room),))


def extra(title: str, *, most: int) -> Column[dict[str, str]]:
    return replace(column(title, 4, most=most), extra=True)


def sizes(placed: list[Placed[dict[str, str]]]) -> dict[str, int]:
    return {one.column.title: one.cells for one in placed}


def test_a_column_is_as_wide_as_what_stands_in_it_and_no_narrower_than_its_title() -> None:
    columns = [column("NAME", 10, most=40), column("NOTE", 10, most=40)]

    assert sizes(layout(columns, 100, {"NAME": 2, "NOTE": 23})) == {"NAME": 4, "NOTE": 23}


def test_room_goes_first_to_what_wants_little() -> None:
    columns = [column("A", 4, most=40), column("B", 4, most=400)]

    assert sizes(layout(columns, 30, {"A": 9, "B": 300})) == {"A": 9, "B": 30 - GAP - 9}


def test_what_is_left_goes_to_a_chart_and_only_then() -> None:
    columns = [column("A", 4, most=40), chart("B", 5, most=20)]

    assert sizes(layout(columns, 60, {"A": 30, "B": 5})) == {"A": 30, "B": 20}
    assert sizes(layout(columns, 40, {"A": 30, "B": 5})) == {"A": 30, "B": 40 - GAP - 30}
    assert plain(line(layout(columns, 40, {"A": 30, "B": 5}), {}, CONTEXT)).endswith("  " + "#" * 8)


def test_columns_fall_away_by_rank_when_their_least_widths_do_not_fit() -> None:
    columns = [column("A", 8, most=20), column("B", 8, rank=1), column("C", 8, rank=2)]
    wanted = {"A": 20, "B": 8, "C": 8}

    assert list(sizes(layout(columns, 28, wanted))) == ["A", "B", "C"]
    assert list(sizes(layout(columns, 27, wanted))) == ["A", "B"]
    assert sizes(layout(columns, 5, wanted)) == {"A": 5}


def test_an_extra_column_takes_what_the_others_leave_and_no_cell_of_theirs() -> None:
    columns = [column("A", 4, most=20), extra("B", most=10), chart("C", 5, most=40), extra("D", most=4)]
    wanted = {"A": 20, "B": 10, "C": 5, "D": 4}
    least = 20 + GAP + 5

    assert sizes(layout(columns, least + GAP + 9, wanted)) == {"A": 20, "C": 5 + 9 - 4, "D": 4}
    assert sizes(layout(columns, least + GAP + 10, wanted)) == {"A": 20, "B": 10, "C": 5}
    assert list(sizes(layout(columns, least + GAP + 10 + GAP + 4, wanted))) == ["A", "B", "C", "D"]
    assert sizes(layout(columns, least - 1, wanted)) == {"A": 19, "C": 5}


@pytest.mark.parametrize("room", [20, 40, 80])
def test_titles_never_run_together(room: int) -> None:
    columns = [column("RUN / SLOTS", 4), column("RATE/s", 2, rank=1), column("LAST 5 MIN", 3, rank=2)]
    placed = layout(columns, room, {})

    assert plain(head(placed)).split("  ") == [one.column.title for one in placed]


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 80), st.integers(0, 3)), min_size=1, max_size=8),
    st.lists(st.integers(0, 100), min_size=8, max_size=8),
    st.integers(1, 200),
)
def test_the_line_never_takes_more_than_its_room_and_no_column_has_blanks_while_another_is_cut_off(
    made: list[tuple[int, int, int]], contents: list[int], room: int
) -> None:
    columns = [column(f"C{n}", cells, most=most, rank=rank) for n, (cells, most, rank) in enumerate(made)]
    wanted = {f"C{n}": contents[n] for n in range(len(made))}
    placed = layout(columns, room, wanted)

    taken = sum(one.cells for one in placed) + GAP * (len(placed) - 1)
    may_fall = max(one.column.rank for one in placed) > 0
    assert taken <= room or (not may_fall and len(placed) > 1)
    assert all(one.cells <= max(2, wanted[one.column.title]) for one in placed)
    cut = [one for one in placed if one.cells < min(wanted[one.column.title], one.column.most)]
    assert not cut or taken >= room

"""A table equals the server's rows again after whatever befell the frames on their way."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle_tui.core.state import tables
from treadle_tui.core.state.tables import Table

Rows = dict[str, int]


def make(*, whole: bool = False) -> Table[int]:
    table: Table[int] = Table("workers", key="id", read=lambda row: row["value"], whole=whole)
    table.expect("w")
    return table


def snapshot(rows: Rows, seq: int) -> dict[str, Any]:
    return {
        "push": "snapshot",
        "sub": "w",
        "topic": "workers",
        "seq": seq,
        "rows": [{"id": key, "value": value} for key, value in rows.items()],
        "total": len(rows),
    }


def delta(before: Rows, after: Rows, seq: int) -> dict[str, Any]:
    return {
        "push": "delta",
        "sub": "w",
        "topic": "workers",
        "seq": seq,
        "rows": [{"id": key, "value": value} for key, value in after.items() if before.get(key) != value],
        "gone": [key for key in before if key not in after],
        "total": len(after),
    }


STATES = st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), max_size=6), min_size=2, max_size=12)


def frames_of(states: list[Rows]) -> list[dict[str, Any]]:
    deltas = [delta(before, after, seq) for seq, (before, after) in enumerate(pairwise(states), 2)]
    return [snapshot(states[0], 1), *deltas]


@given(STATES)
def test_every_frame_in_order_gives_the_servers_rows(states: list[Rows]) -> None:
    table = make()

    for state, frame in zip(states, frames_of(states), strict=True):
        table.apply(frame)

        assert table.rows == state
        assert sorted(table.order) == sorted(state)
        assert not table.torn


@given(STATES, st.data())
def test_doubled_frames_change_nothing(states: list[Rows], data: st.DataObject) -> None:
    table = make()

    for state, frame in zip(states, frames_of(states), strict=True):
        for _ in range(data.draw(st.integers(1, 3))):
            table.apply(frame)
        assert table.rows == state


@given(STATES, st.randoms(use_true_random=False))
def test_after_dropped_doubled_and_reordered_frames_a_snapshot_gives_the_servers_rows(
    states: list[Rows], random: Any
) -> None:
    table = make()
    frames = frames_of(states)
    mangled = [frame for frame in frames for _ in range(random.choice((0, 1, 1, 2)))]
    random.shuffle(mangled)

    for frame in mangled:
        table.apply(frame)
    table.expect("w")
    table.apply(snapshot(states[-1], len(states) + 1))

    assert table.rows == states[-1]
    assert list(table.rows) == table.order
    assert not table.torn


def test_a_frame_older_than_what_is_here_marks_the_table_torn() -> None:
    table = make()
    table.apply(snapshot({"a": 1}, 5))

    table.apply(delta({}, {"b": 1}, 4))

    assert table.torn
    assert table.rows == {"a": 1}


def test_a_lost_frame_shows_in_the_total() -> None:
    table = make()
    table.apply(snapshot({"a": 1}, 1))

    table.apply({**delta({"a": 1, "b": 1}, {"a": 2, "b": 1}, 3)})

    assert table.torn


def test_a_delta_before_the_snapshot_is_of_no_use() -> None:
    table = make()

    assert not table.apply(delta({}, {"a": 1}, 3))
    assert table.rows == {}


def parts() -> list[dict[str, Any]]:
    """A snapshot of three rows that comes in as many pushes."""
    first, *others = ({**snapshot({key: 1}, 4), "frame": frame, "total": 3} for frame, key in enumerate("abc"))
    return [first, *({**other, "push": "delta", "gone": [], "prev": other["frame"] - 1} for other in others)]


def test_of_a_snapshot_in_several_pushes_nothing_is_shown_before_all_of_it_is_here() -> None:
    table = make(whole=True)
    first, second, third = parts()

    assert not table.apply(first)
    assert not table.apply(second)
    assert (table.rows, table.ready, table.total) == ({}, False, 0)
    assert table.apply(third)
    assert (table.rows, table.order, table.torn) == ({"a": 1, "b": 1, "c": 1}, ["a", "b", "c"], False)
    assert table.apply({**delta({}, {"d": 2}, 5), "frame": 3, "prev": 2, "total": 4})


def test_a_snapshot_is_whole_with_as_many_rows_as_are_shown_though_there_are_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "MOST_SHOWN", 3)
    table = make(whole=True)

    taken = [table.apply({**push, "total": 5}) for push in parts()]

    assert taken == [False, False, True]
    assert (table.ready, list(table.rows), table.total) == (True, ["a", "b", "c"], 5)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_part_of_a_snapshot_that_is_lost_marks_the_table_torn(lost: int) -> None:
    table = make(whole=True)

    for push in parts()[:lost] + parts()[lost + 1 :]:
        table.apply(push)

    assert table.torn
    assert table.rows == {}


def test_a_push_of_another_subscription_is_passed_over() -> None:
    table = make()

    assert not table.apply({**snapshot({"a": 1}, 1), "sub": "older"})


def test_a_windows_order_drops_what_left_it() -> None:
    table: Table[int] = Table("tasks", key="id", read=lambda row: row["value"])
    table.expect("w")
    table.apply({**snapshot({"a": 1, "b": 2, "c": 3}, 1), "topic": "tasks", "total": 900})

    table.apply({**delta({}, {"d": 4}, 2), "order": ["c", "d", "a"], "total": 900})

    assert table.order == ["c", "d", "a"]
    assert table.rows == {"c": 3, "d": 4, "a": 1}
    assert table.total == 900
    assert not table.torn


def test_an_order_with_a_row_that_never_came_marks_the_table_torn() -> None:
    table: Table[int] = Table("tasks", key="id", read=lambda row: row["value"])
    table.expect("w")
    table.apply({**snapshot({"a": 1}, 1), "topic": "tasks"})

    table.apply({**delta({}, {}, 2), "order": ["a", "lost"], "total": 2})

    assert table.torn

"""The logs of several tasks as one: each line once, in one order, whatever comes and goes."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.tui.mock import NOON
from treadle.wire.runs import LogItem
from treadle_tui.core.state.logs import MergedLog


def lines(*seconds: float, run: int = 0) -> list[LogItem]:
    return [
        LogItem(run_id=run, at=NOON + timedelta(seconds=at), level="info", message=f"line {number}")
        for number, at in enumerate(seconds)
    ]


def test_lines_of_several_tasks_stand_in_the_order_of_their_times_the_newest_first() -> None:
    log = MergedLog()

    assert log.take("a", "lab:tasks:add", lines(1, 3))
    assert log.take("b", "lab:tasks:add", lines(2, 3, 4))

    assert [(row.task_id, row.message) for row in log.rows] == [
        ("b", "line 2"), ("a", "line 1"), ("b", "line 1"), ("b", "line 0"), ("a", "line 0"),
    ]  # fmt: skip
    assert not log.take("a", "lab:tasks:add", lines(1, 3))


def test_a_line_keeps_its_name_when_others_come_and_the_oldest_are_told_no_more() -> None:
    log = MergedLog()
    log.take("a", "j", lines(1, 2, 2))
    before = {row.message: row.id for row in log.rows}

    log.take("a", "j", lines(1, 2, 2, 3))

    assert {row.message: row.id for row in log.rows}.items() >= before.items()
    log.take("a", "j", lines(1, 2, 2, 3)[1:])
    assert {row.message: row.id for row in log.rows}.items() <= {**before, "line 3": log.rows[0].id}.items()


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers(0, 5), max_size=8).map(sorted)))
def test_every_line_is_there_once_by_a_name_of_its_own(logs: dict[str, list[int]]) -> None:
    log = MergedLog()
    for task, seconds in logs.items():
        log.take(task, "j", lines(*seconds))

    assert len({row.id for row in log.rows}) == len(log.rows) == sum(map(len, logs.values()))
    assert [row.at for row in log.rows] == sorted((row.at for row in log.rows), reverse=True)


def test_no_more_lines_are_kept_than_that_and_those_of_tasks_that_are_read_no_more_go_first() -> None:
    log = MergedLog(kept=3)
    log.take("a", "j", lines(9, 10))
    log.take("b", "j", lines(1, 2))
    assert [row.at.second for row in log.rows] == [10, 9, 2]

    log.keep_only(["b"])
    log.take("b", "j", lines(1, 2, 3))

    assert [(row.task_id, row.at.second) for row in log.rows] == [("b", 3), ("b", 2), ("b", 1)]


def test_a_text_is_looked_for_in_all_that_a_line_tells() -> None:
    log = MergedLog()
    log.take("0199-abc", "lab:tasks:Add", lines(1))
    [row] = log.rows

    assert all(row.has(text) for text in ("LINE 0", "info", "tasks:add", "0199-ABC"))
    assert not row.has("warning")

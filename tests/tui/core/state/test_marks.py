"""Marks keep to tasks by id, loaded or not."""

from treadle.wire.bulk import FrozenTask
from treadle.wire.status import Status
from treadle_tui.core.state.marks import Marks


def aim(key: str, status: Status = Status.PENDING, version: int = 1) -> FrozenTask:
    return FrozenTask(id=key, status=status, version=version, job_name="@global:tasks:a")


def aims(keys: str) -> list[FrozenTask]:
    return [aim(key) for key in keys]


def keys(marks: Marks) -> str:
    return "".join(choice.id for choice in marks)


def test_a_mark_is_put_and_taken_away() -> None:
    marks = Marks()
    (one,) = aims("a")

    marks.turn(one)
    assert "a" in marks
    marks.turn(one)

    assert "a" not in marks
    assert not marks


def test_marks_keep_the_order_in_which_they_were_put() -> None:
    marks = Marks()

    marks.add(aims("ca"))
    marks.add(aims("bc"))

    assert keys(marks) == "cab"


def test_marked_tasks_are_those_that_were_last_seen() -> None:
    marks = Marks()
    marks.add(aims("ab"))

    marks.follow({"b": aim("b", Status.RUNNING, 7), "x": aim("x", Status.RUNNING)})

    assert list(marks) == [aim("a"), aim("b", Status.RUNNING, 7)]


def test_all_are_covered_only_when_each_is_marked() -> None:
    marks = Marks()
    marks.add(aims("ab"))

    assert marks.covers("ab")
    assert not marks.covers("abc")

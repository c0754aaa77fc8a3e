"""What two servers tell of a task is told in one order, that of its versions (G11, Z16)."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.ids import TaskId
from treadle_server.engine import version_order
from treadle_server.engine.version_order import VersionOrder

_told = st.lists(
    st.tuples(st.booleans(), st.lists(st.tuples(st.sampled_from("ab").map(TaskId), st.integers(1, 8)), max_size=5)),
    max_size=12,
)
"""Batches as they come, reordered and doubled: whether another server tells it, and each task with its version."""


@given(_told)
def test_no_task_goes_back_whoever_tells_it_in_which_order_g11(batches: list[tuple[bool, list[tuple[TaskId, int]]]]):
    told: dict[TaskId, list[int]] = {}
    merged = VersionOrder()

    for is_foreign, batch in batches:
        ordered = sorted(batch, key=lambda one: one[1])
        late = merged.late(ordered, is_foreign=is_foreign)
        for place, (task_id, version) in enumerate(ordered):
            if place not in late:
                told.setdefault(task_id, []).append(version)

    newest: dict[TaskId, int] = {}
    for _, batch in batches:
        for task_id, version in batch:
            newest[task_id] = max(version, newest.get(task_id, 0))
    assert all(versions == sorted(versions) for versions in told.values())
    assert {task_id: versions[-1] for task_id, versions in told.items()} == newest


@given(st.permutations([1, 2, 3, 4]), st.integers(0, 3))
def test_a_notice_that_comes_twice_is_told_once_g11(versions: list[int], again: int):
    merged, task_id = VersionOrder(), TaskId("a")
    heard = [*versions, versions[again]]

    told = [version for version in heard if not merged.late([(task_id, version)], is_foreign=True)]

    assert len(told) == len(set(told))
    assert told[-1] == 4


def test_what_happened_in_one_commit_is_told_whole():
    merged, task_id = VersionOrder(), TaskId("a")

    assert merged.late([(task_id, 3), (task_id, 4), (task_id, 4)], is_foreign=False) == frozenset()
    assert merged.late([(task_id, 2), (task_id, 5)], is_foreign=True) == {0}


def test_only_the_tasks_that_were_told_last_are_known(monkeypatch):
    monkeypatch.setattr(version_order, "MOST", 10)
    merged = VersionOrder()

    for n in range(100):
        merged.late([(TaskId(str(n)), 2)], is_foreign=True)

    assert len(merged._told) + len(merged._told_before) <= 22
    assert all(merged.late([(TaskId(str(n)), 1)], is_foreign=True) for n in range(90, 100))


def test_of_what_the_only_writer_commits_nothing_is_noted_once_others_have_told_all_that_they_did():
    at = 0.0
    merged, one = VersionOrder(lambda: at), TaskId("a")
    merged.late([(one, 3)], is_foreign=False, is_exclusive=True)
    assert merged.late([(one, 2)], is_foreign=True) == {0}, "what another server did before comes later"

    at += version_order.UNTOLD + 1
    assert merged.late([(one, 4)], is_foreign=False, is_exclusive=True) == frozenset()

    assert not merged._told
    assert merged.late([(one, 6)], is_foreign=True) == frozenset(), "another server has joined since"
    assert merged.late([(one, 5)], is_foreign=True) == {0}

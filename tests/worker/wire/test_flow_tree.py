"""F2: a flow as a tree, and what of it takes the longest."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.flow_tree import critical_path, took, tree
from treadle.wire.flows import FlowEdge, FlowTask, FlowView
from treadle.wire.status import Status

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def task(name: str, *, ran: float | None = None, status: Status = Status.COMPLETED) -> FlowTask:
    """A task that began as long ago as it ran, and if it is not open ended now."""
    begun = None if ran is None else NOON - timedelta(seconds=ran)
    ended = NOON if status is Status.COMPLETED else None
    return FlowTask(
        id=name, job_name=f"lab:tasks:{name}", status=status, created_at=NOON, started_at=begun, completed_at=ended
    )


def flow(tasks: list[FlowTask], *needs: tuple[str, str]) -> FlowView:
    edges = [FlowEdge(task_id=one, needs_id=other, names=["x"]) for one, other in needs]
    return FlowView(id="f", room_id="lab", created_at=NOON, tasks=tasks, edges=edges)


def test_f2_what_several_wait_for_is_drawn_once_with_all_beneath_it() -> None:
    view = flow([task(name) for name in "abcd"], ("d", "b"), ("d", "c"), ("b", "a"), ("c", "a"), ("a", "elsewhere"))

    assert [(one.task.id, one.depth, one.is_above) for one in tree(view)] == [
        ("d", 0, False),
        ("b", 1, False),
        ("a", 2, False),
        ("c", 1, False),
        ("a", 2, True),
    ]


def test_f2_the_critical_path_is_the_chain_that_takes_the_longest_and_not_the_one_of_most_tasks() -> None:
    tasks = [task("quick", ran=1), task("quicker", ran=1), task("slow", ran=30), task("end", ran=2)]
    view = flow(tasks, ("quicker", "quick"), ("end", "quicker"), ("end", "slow"))

    path = critical_path(view, NOON)

    assert [one.id for one in path.tasks] == ["slow", "end"]
    assert path.seconds == 32


def test_f2_of_a_part_of_a_flow_no_critical_path_is_told() -> None:
    """The task that waits for all of them came last, and was left out: the path ended before it."""
    view = flow([task("first", ran=1), task("then", ran=30)], ("then", "first"))

    assert critical_path(view.model_copy(update={"is_capped": True}), NOON) == ((), 0.0)


def test_f2_what_is_open_counts_with_what_is_usual_and_what_has_ended_with_what_it_took() -> None:
    tasks = [
        task("over", ran=5),
        task("long", ran=50, status=Status.RUNNING),
        task("short", ran=1, status=Status.RUNNING),
        task("then", status=Status.BLOCKED),
    ]
    usual = {f"lab:tasks:{name}": 10.0 for name in ("over", "long", "short", "then")}

    def seconds(name: str) -> float:
        return critical_path(flow(tasks, ("then", name)), NOON, usual).seconds

    assert (seconds("over"), seconds("short"), seconds("long")) == (50, 50, 60)
    assert took(tasks[3], NOON) is None
    assert critical_path(flow([]), NOON) == ((), 0.0)


@given(st.data())
def test_f2_no_chain_of_any_flow_takes_longer_than_the_critical_path(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    lasted = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    all_pairs = [(one, other) for one in range(count) for other in range(one)]
    needs = data.draw(st.sets(st.sampled_from(all_pairs))) if all_pairs else set()
    order = data.draw(st.permutations(range(count)))
    view = flow([task(str(n), ran=lasted[n]) for n in order], *((str(one), str(other)) for one, other in needs))

    path = critical_path(view, NOON)

    def longest(last: int) -> int:
        return lasted[last] + max((longest(other) for one, other in needs if one == last), default=0)

    assert path.seconds == max(longest(n) for n in range(count))
    assert path.seconds == sum(lasted[int(one.id)] for one in path.tasks)
    assert all((int(after.id), int(one.id)) in needs for one, after in pairwise(path.tasks))


def test_f3_a_task_that_failed_and_was_tried_again_counts_with_all_of_its_runs() -> None:
    again = task("again", ran=5, status=Status.RUNNING).model_copy(update={"ran_seconds": 40.0})
    over = task("over", ran=20).model_copy(update={"ran_seconds": 20.0})
    waits = task("waits", ran=300, status=Status.SCHEDULED).model_copy(update={"ran_seconds": 2.0})
    view = flow([again, over, waits], ("over", "again"))

    path = critical_path(view, NOON)

    assert [one.id for one in path.tasks] == ["again", "over"]
    assert path.seconds == 65
    # It failed some time ago, and waits for its next try.
    assert took(waits, NOON) == 2

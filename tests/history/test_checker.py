"""The checker of histories is checked: a good one passes, and each kind of violation that is planted in it is found."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.history.checker import check
from tests.history.made import changed, good, ran, row, said, without
from tests.history.records import Fault, History, Mark, RunRow

Plant = Callable[[History], object]


def found(history: History) -> set[str]:
    return {violation.rule for violation in check(history)}


def more(history: History, task: str, *runs: RunRow) -> None:
    history.runs = [one for one in history.runs if one.task != task] + list(runs)


def remark(history: History, old: Mark, **rest: object) -> None:
    history.marks = [replace(one, **rest) if one == old else one for one in history.marks]  # type: ignore[arg-type]


def mark_of(history: History, task: str, what: str) -> Mark:
    return next(one for one in history.marks if (one.task, one.what) == (task, what))


def test_a_history_in_which_all_is_well_has_no_violation() -> None:
    assert check(good()) == []


PLANTED: dict[str, tuple[str, Plant]] = {
    "an acknowledged submit is not there": ("lost", lambda h: without(h, "first")),
    "a task is there that nobody put in": ("unasked", lambda h: h.tasks.append(row("ghost", 9))),
    "a task never ends": ("open", lambda h: changed(h, "retried", status="running")),
    "a payload is another one": ("edit-lost", lambda h: changed(h, "first", payload={"n": 7})),
    "an edit's payload is undone": ("edit-lost", lambda h: changed(h, "edited", payload={"n": 1}, result={"n": 1})),
    "an edit's priority is undone": ("edit-lost", lambda h: changed(h, "edited", priority=0)),
    "a result is another task's": ("wrong-result", lambda h: changed(h, "first", result={"n": 2})),
    "a cancel is undone": ("cancel-lost", lambda h: changed(h, "cancelled", status="completed", result={"n": 1})),
    "two runs complete": (
        "completed-twice",
        lambda h: more(h, "first", RunRow("first", 0, "completed"), RunRow("first", 1, "completed")),
    ),
    "no run completes": (
        "completed-by-nobody",
        lambda h: more(h, "first", RunRow("first", 0, "failed", "error")),
    ),
    "a run's number is left out": ("run-numbers", lambda h: more(h, "first", RunRow("first", 1, "completed"))),
    "more runs than the retries allow": (
        "over-budget",
        lambda h: more(
            h,
            "retried",
            *(RunRow("retried", n, "failed", "error") for n in range(2)),
            RunRow("retried", 2, "completed"),
        ),
    ),
    "more runs than the requeues allow": (
        "over-budget",
        lambda h: more(h, "first", RunRow("first", 0, "exception", "claim-expired"), RunRow("first", 1, "completed")),
    ),
    "a failure before the retries are spent": (
        "failed-early",
        lambda h: (changed(h, "retried", status="failed"), more(h, "retried", RunRow("retried", 0, "failed", "error"))),
    ),
    "an ended run is another one later": (
        "run-changed",
        lambda h: more(h, "again", RunRow("again", 0, "exception", "claim-expired"), RunRow("again", 1, "completed")),
    ),
    "a read goes back": (
        "read-back",
        lambda h: h.said.append(said("get", "edited", 2.5, {"version": 1})),
    ),
    "the tables go back": ("read-back", lambda h: changed(h, "cancelled", version=3)),
    "an observer has an older state": (
        "observer",
        lambda h: h.observed["observer"].update(first=("running", 3)),
    ),
    "an observer knows nothing of a task": ("observer", lambda h: h.observed["observer"].pop("first")),
    "an observer knows of a task that is gone": (
        "observer",
        lambda h: h.observed["observer"].update(ghost=("pending", 1)),
    ),
    "a run is executed twice": ("run-twice", lambda h: h.marks.extend(ran("first", 0, 3.0, 3.0, target="t"))),
    "a run that is not there is executed": ("run-unknown", lambda h: h.marks.extend(ran("retried", 2, 8.0, 8.1))),
    "code that returned has failed": ("wrong-outcome", lambda h: remark(h, mark_of(h, "retried", "raise"), what="end")),
    "code that raised has completed": ("wrong-outcome", lambda h: remark(h, mark_of(h, "first", "end"), what="raise")),
    "code that never came to its end has completed": (
        "wrong-outcome",
        lambda h: h.marks.remove(mark_of(h, "first", "end")),
    ),
    "code that never ran has completed": (
        "wrong-outcome",
        lambda h: setattr(h, "marks", [one for one in h.marks if one.task != "first"]),
    ),
    "code is given what was before an edit": ("wrong-payload", lambda h: remark(h, mark_of(h, "edited", "begin"), n=1)),
    "two runs of a target overlap": ("overlap", lambda h: remark(h, mark_of(h, "second", "begin"), at=2.9)),
    "a target's tasks are out of order": (
        "order",
        lambda h: (
            remark(h, mark_of(h, "second", "begin"), at=1.5),
            remark(h, mark_of(h, "second", "end"), at=1.9),
        ),
    ),
    "cancelled code goes on": ("cancelled-runs", lambda h: remark(h, mark_of(h, "cancelled", "beat"), at=11.5)),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_violation_is_found(kind: str) -> None:
    rule, plant = PLANTED[kind]
    history = good()
    plant(history)

    assert rule in found(history), kind


def test_what_may_be_after_a_lost_answer_is_no_violation() -> None:
    """A cancel, an edit and a rerun whose answers were lost, and a submit that nobody knows of."""
    history = good()
    history.said += [
        replace(said("submit", "unheard", 1.0, payload={"n": 1}), answer="unknown", answered=None),
        replace(said("edit", "edited", 2.0, payload={"n": 3}), answer="unknown", answered=None),
        replace(said("rerun", "cancelled", 2.0), answer="unknown", answered=None),
    ]
    changed(history, "edited", payload={"n": 3}, result={"n": 3})
    remark(history, mark_of(history, "edited", "begin"), n=3)
    history.marks += ran("cancelled", 1, 6.0, 6.1)
    history.runs.append(RunRow("cancelled", 1, "completed"))
    changed(history, "cancelled", status="completed", result={"n": 1})

    assert found(history) == set()


def test_edits_at_the_same_time_may_stand_in_either_order() -> None:
    history = good()
    history.said.append(said("edit", "edited", 1.65, {"version": 2}, payload={"n": 9}))

    assert found(history) == set()


def test_a_process_that_wakes_after_its_lease_may_take_a_moment_to_find_out() -> None:
    """Only within that moment, and only the process that was frozen."""
    history = good()
    history.tasks += [row("slept", 7, target="u", max_requeues=1), row("after", 8, target="u")]
    history.said += [said("submit", name, 8.0 + i, payload={"n": 1}) for i, name in enumerate(("slept", "after"))]
    history.runs += [RunRow("slept", 0, "exception", "claim-expired"), RunRow("slept", 1, "completed")]
    history.runs += [RunRow("after", 0, "completed")]
    history.marks += ran("slept", 0, 9.5, 20.5, "beat", target="u", worker="frozen")
    history.marks += [*ran("slept", 1, 15.0, 16.0, target="u"), *ran("after", 0, 17.0, 18.0, target="u")]
    history.observed, history.faults = {}, [Fault("freeze", "frozen", 10.0, 20.0)]

    assert found(history) == set()
    history.faults = [Fault("freeze", "other", 10.0, 20.0)]
    assert found(history) == {"overlap"}


def test_targets_of_one_name_in_two_rooms_are_two() -> None:
    history = good()
    remark(history, mark_of(history, "second", "begin"), at=2.0)
    changed(history, "second", room="office")

    assert found(history) == set()


def test_code_without_a_target_may_go_on_while_nobody_can_tell_its_worker() -> None:
    history = good()
    remark(history, mark_of(history, "cancelled", "beat"), at=20.0)
    history.faults = [Fault("blackhole", "w", 5.0, 14.0)]

    assert found(history) == set()
    changed(history, "cancelled", target="t9")
    assert found(history) == {"cancelled-runs"}

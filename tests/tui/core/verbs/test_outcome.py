"""What a bulk action says afterwards, and how it is taken back (behaviour 6)."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.status import Status
from treadle.wire.tasks import BulkProblem, BulkResult, FrozenTask
from treadle_tui.core.verbs.outcome import PORTION, portions, report, undo_of
from treadle_tui.core.verbs.plan import Plan, plan


def aim(key: str, status: str = "pending", version: int = 1) -> FrozenTask:
    return FrozenTask(id=key, status=Status(status), version=version, job_name="@global:tasks:a")


def planned(verb: str, *tasks: FrozenTask) -> Plan:
    found = plan(verb, tasks)  # type: ignore[arg-type]
    assert isinstance(found, Plan)
    return found


def result(verb: str, versions: dict[str, int], **problems: str) -> BulkResult:
    return BulkResult(
        action=verb,  # type: ignore[arg-type]
        matched=len(versions) + len(problems),
        changed=len(versions),
        versions=versions,
        problems=[BulkProblem(id=key, type="", detail=why) for key, why in problems.items()],
    )


def test_6_every_task_of_a_plan_has_its_word_in_the_report() -> None:
    found = planned("cancel", aim("a"), aim("b"), aim("c"), aim("d", "completed"))

    said = report(found, [result("cancel", {"a": 2}, b="it was changed since")], broken="the connection is gone")

    assert [(outcome.id, outcome.ok, outcome.text) for outcome in said.outcomes] == [
        ("a", True, "cancelled; it was pending"),
        ("b", False, "it was changed since"),
        ("c", False, "not known: the answer never came"),
        ("d", False, "left alone: it is completed"),
    ]
    assert said.text == "cancelled 1 task, not 2: it was changed since; then the connection is gone"
    assert not said.ok


def test_6_an_undo_names_what_was_done_where_the_inverse_verb_restores_it() -> None:
    found = planned("cancel", aim("a"), aim("b", "running"), aim("c", "scheduled"), aim("d", "paused"))

    undo = undo_of(found, [result("cancel", {"a": 2, "b": 9, "c": 4, "d": 5})], steady=100.0)

    assert undo is not None
    assert [(ask.op, ask.fields) for ask in undo.asks] == [
        ("actions", {"action": "rerun", "ids": ["a", "c"], "if_versions": {"a": 2, "c": 4}})
    ]
    assert undo.seconds_left(104.0) == 1.0


def test_6_what_was_refused_is_not_undone() -> None:
    assert undo_of(planned("pause", aim("a")), [result("pause", {}, a="no")], steady=0.0) is None
    assert undo_of(planned("rerun", aim("a", "completed")), [result("rerun", {"a": 2})], steady=0.0) is None


@given(st.integers(0, 3 * PORTION))
def test_6_portions_name_every_task_once_and_none_is_larger_than_a_request_takes(count: int) -> None:
    tasks = [aim(str(number)) for number in range(count)]

    found = list(portions(tasks))

    assert [key for ids in found for key in ids] == [task.id for task in tasks]
    assert all(len(ids) <= PORTION for ids in found)

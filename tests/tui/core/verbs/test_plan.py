"""What a verb may do to which tasks, what it says afterwards, and how it is taken back (behaviour 6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.core.verbs.plans import aim, planned
from treadle.wire.status import Status
from treadle.wire.transitions import ADMITS
from treadle_tui.core.verbs.action import PAST
from treadle_tui.core.verbs.plan import COUNT_FROM, Refusal, does, plan


@given(st.sampled_from(sorted(PAST)), st.lists(st.sampled_from(list(Status)), max_size=8))
def test_6_a_plan_names_exactly_the_tasks_that_the_verb_may_act_on(verb: str, statuses: list[Status]) -> None:
    tasks = [aim(str(number), status) for number, status in enumerate(statuses)]

    found = plan(verb, tasks)  # type: ignore[arg-type]

    if verb in {"cancel", "pause", "resume"}:
        assert does(verb, {task.status for task in tasks}) == (not isinstance(found, Refusal))
    if isinstance(found, Refusal):
        meant = {"resume": ADMITS["resume"] | ADMITS["rerun"]}.get(verb, ADMITS[verb])  # type: ignore[index]
        assert not meant & set(statuses)
    else:
        assert all(task.status in ADMITS[found.verb] for task in found.tasks)
        assert not any(task.status in ADMITS[found.verb] for task in found.left)
        assert sorted(task.id for task in (*found.tasks, *found.left)) == sorted(task.id for task in tasks)


def test_6_a_cancel_insists_on_the_version_of_what_had_not_started() -> None:
    found = planned("cancel", aim("a", "pending", 3), aim("b", "running", 5), aim("c", "paused", 7))

    assert found.if_versions == {"a": 3, "c": 7}
    assert planned("pause", aim("a")).if_versions == {}


@pytest.mark.parametrize(
    ("verb", "statuses", "question"),
    [
        ("cancel", ["pending"], "none"),
        ("cancel", ["pending", "running"], "yes"),
        ("pause", ["running"], "none"),
        ("pause", ["pending"] * (COUNT_FROM - 1), "none"),
        ("pause", ["pending"] * COUNT_FROM, "count"),
        ("cancel", ["running"] * COUNT_FROM, "count"),
    ],
)
def test_6_what_runs_is_asked_about_and_over_a_hundred_the_count(verb: str, statuses: list[str], question: str) -> None:
    tasks = [aim(str(number), status) for number, status in enumerate(statuses)]

    assert planned(verb, *tasks).question == question

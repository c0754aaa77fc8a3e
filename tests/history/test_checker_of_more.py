"""The checker's rules of limits, flows, steps and messages: a good history passes, and what is planted is found."""

from dataclasses import replace
from typing import Any

import pytest

from tests.history.checker import check
from tests.history.made import said
from tests.history.made_of_more import AHEAD, STEPPED, more
from tests.history.records import Era, History, Mark, StepRow
from tests.history.test_checker import Plant, found, mark_of, remark


def test_a_history_of_limits_flows_and_steps_in_which_all_is_well_has_no_violation() -> None:
    assert check(more()) == []


def note(history: History, task: str, what: str, number: int, to: Any) -> None:
    """Have a mark, by its number among those of its kind, say something else."""
    several = [one for one in history.marks if (one.task, one.what) == (task, what)]
    remark(history, several[number], note=to)


def claim(history: History, task: str, at: float) -> None:
    """Have a task's run be claimed at this instant of the store's clock."""
    history.runs = [replace(one, claimed_at=at) if one.task == task else one for one in history.runs]


def hurry(history: History, shown: float = AHEAD + STEPPED) -> None:
    """Have a task be claimed, and its code begin, before there is a token."""
    claim(history, "craft-2", 18.2 + shown)
    remark(history, mark_of(history, "craft-2", "begin"), at=18.3)


def say(history: History, task: str, name: str, to: Any) -> None:
    """Have what was said of a task say something else."""
    several = history.said
    history.said = [replace(one, fields={**one.fields, name: to}) if one.task == task else one for one in several]


def mark(history: History, what: Any, run: int, at: float, to: Any) -> None:
    history.marks.append(Mark(what, "walker", run, at, "w", 1, note=to))


PLANTED: dict[str, tuple[str, Plant]] = {
    "too many are inside": ("over-limit", lambda h: remark(h, mark_of(h, "heavy", "begin"), at=7.8)),
    "a light one is inside with a heavy one": (
        "over-limit",
        lambda h: (remark(h, mark_of(h, "light", "begin"), at=8.5), remark(h, mark_of(h, "light", "end"), at=8.8)),
    ),
    "a lost worker's code goes on within its lease": (
        "over-limit",
        lambda h: [remark(h, one, until=13.0) for one in h.marks if one.task == "lost" and one.run == 0],
    ),
    "a claim without a token": ("over-rate", hurry),
    "a clock that was set fills a bucket": (
        "over-rate",
        # Then all three were claimed within a fifth of a second, and the hour between them is none.
        lambda h: (setattr(h, "eras", [Era(float("-inf"), AHEAD + STEPPED), Era(18.15, AHEAD)]), hurry(h, AHEAD)),
    ),
    "code begins before what it waits for has ended": (
        "early",
        lambda h: remark(h, mark_of(h, "sink", "begin"), at=2.9),
    ),
    "code begins although what it waits for has failed": (
        "early",
        lambda h: h.marks.append(Mark("begin", "orphan", 0, 6.0, "w", 1)),
    ),
    "code begins although what it waits for is tried again": (
        "early",
        lambda h: setattr(h, "tasks", [replace(one, max_retries=1) if one.id == "bad" else one for one in h.tasks]),
    ),
    "code is given another result": (
        "wrong-given",
        lambda h: note(h, "sink", "given", 0, {"parts": [{"n": 1}, {"n": 2}]}),
    ),
    "code is given one result too few": ("wrong-given", lambda h: note(h, "sink", "given", 0, {"parts": [{"n": 1}]})),
    "code is given nothing of one that completed": (
        "wrong-given",
        lambda h: note(h, "sink", "given", 0, {"parts": [{"n": 1}, None]}),
    ),
    "code is given results by another name": ("wrong-given", lambda h: note(h, "anyway", "given", 0, {"first": None})),
    "one is cancelled for a task that completed": (
        "wrong-cancel",
        lambda h: say(h, "orphan", "depends_on", {"before": ["source"]}),
    ),
    "one is cancelled that was to run": ("wrong-cancel", lambda h: say(h, "heir", "on_dependency_failure", "run")),
    "a kept step is called again": ("step-twice", lambda h: mark(h, "effect", 1, 5.15, ["left", 0, "d"])),
    "a run calls a step twice": ("step-twice", lambda h: mark(h, "effect", 1, 5.25, ["right", 0, "e"])),
    "a run is given another result of a step": (
        "step-result",
        lambda h: (mark(h, "effect", 0, 2.15, ["left", 0, "x"]), note(h, "walker", "used", 1, ["left", 0, "x"])),
    ),
    "a run is given what no call returned": ("step-result", lambda h: note(h, "walker", "used", 2, ["right", 0, "x"])),
    "a kept step is lost": ("step-lost", lambda h: h.steps.pop()),
    "a kept step is another one": (
        "step-lost",
        lambda h: setattr(h, "steps", [*h.steps[:1], StepRow("walker", "right", 0, "call", "b")]),
    ),
    "a message is received twice": ("message", lambda h: note(h, "walker", "received", 1, [1, "one"])),
    "a message comes that nobody sent": ("message", lambda h: note(h, "walker", "received", 1, [1, "three"])),
    "a receive gives another message later": ("message", lambda h: mark(h, "received", 2, 6.0, [1, "one"])),
    "a message overtakes another one": (
        "message",
        lambda h: (note(h, "walker", "received", 0, [0, "two"]), note(h, "walker", "received", 1, [1, "one"])),
    ),
    "a message is passed over": ("message", lambda h: h.said.append(said("send", "walker", 2.0, data="zero"))),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_violation_of_limits_flows_or_steps_is_found(kind: str) -> None:
    rule, plant = PLANTED[kind]
    history = more()
    plant(history)

    assert rule in found(history), kind


def test_a_message_whose_answer_was_lost_may_have_come_or_not() -> None:
    history = more()
    unheard = replace(said("send", "walker", 2.0, data="zero"), answer="unknown", answered=None)

    history.said.append(unheard)
    assert found(history) == set()
    note(history, "walker", "received", 0, [0, "zero"])
    note(history, "walker", "received", 1, [1, "one"])
    assert found(history) == set()


def test_what_is_run_again_may_have_no_result_for_who_begins_meanwhile_f2() -> None:
    """F2: what has begun is not touched, and may be claimed anew before there is a new result."""
    history = more()
    [submit] = [one for one in history.said if (one.op, one.task) == ("submit", "sink")]
    again = replace(said("rerun", submit.fields["depends_on"]["parts"][1], 0.0), answer="unknown", answered=None)
    note(history, "sink", "given", 0, {"parts": [{"n": 1}, None]})
    assert found(history) == {"wrong-given"}

    history.said.append(replace(again, sent=1e9))
    assert found(history) == {"wrong-given"}, "it was asked for only later"
    history.said.append(again)
    assert found(history) == set()


def test_what_is_run_again_may_be_missing_where_its_result_is_an_argument_f2() -> None:
    """F2: who is claimed before there is a new one has a payload that can't be taken, and fails at once."""
    history = more()
    say(history, "sink", "arguments_from", {"parts": "parts"})
    history.tasks = [
        replace(one, status="failed", reason="malformed-payload", result=None) if one.id == "sink" else one
        for one in history.tasks
    ]
    history.runs = [
        replace(one, status="exception", reason="malformed-payload") if one.task == "sink" else one
        for one in history.runs
    ]
    history.marks = [one for one in history.marks if one.task != "sink"]
    assert "failed-early" in found(history)

    history.said.append(said("rerun", "bad", 2.0))
    assert "failed-early" in found(history), "another one is run again"
    history.said.append(said("rerun", "source", 2.0))
    assert "failed-early" not in found(history)


def test_a_claim_whose_server_stood_still_before_it_was_committed_may_have_taken_a_later_token() -> None:
    history = more()
    claim(history, "craft-2", 18.2 + AHEAD + STEPPED)

    assert found(history) == set()


def test_what_was_handed_back_gave_its_token_back() -> None:
    history = more()
    hurry(history)
    assert found(history) == {"over-rate"}

    history.marks = [one for one in history.marks if one.task != "craft-1"]
    history.runs = [
        replace(one, status="returned", reason="returned") if one.task == "craft-1" else one for one in history.runs
    ]
    assert "over-rate" not in found(history)

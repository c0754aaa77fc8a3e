"""What a bulk action says afterwards, and how it is taken back (behaviour 6)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.tui.core.verbs.plans import aim, planned
from treadle.wire.bulk import BulkProblem, BulkResult
from treadle.wire.status import Status
from treadle_tui.core.verbs.outcome import (
    CHANGED,
    PORTION,
    STOPPING,
    STOPPING_SECONDS,
    as_done,
    begun_since,
    portions,
    report,
    rest_of,
    undo_of,
    undo_report,
)


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

    said = report(found, [result("cancel", {"a": 2}, b="it has changed since")], broken="the connection is gone")

    assert [(outcome.id, outcome.ok, outcome.text) for outcome in said.outcomes] == [
        ("a", True, "cancelled; it was pending"),
        ("b", False, "it has changed since"),
        ("c", False, "unknown: no answer came"),
        ("d", False, "skipped: it is completed"),
    ]
    assert said.text == "cancelled 1 task, skipped 2: it has changed since; then the connection is gone"
    assert not said.ok


def test_6_an_undo_names_what_was_done_where_the_inverse_verb_restores_it() -> None:
    statuses = {"a": "pending", "b": "running", "c": "scheduled", "d": "paused", "e": "blocked"}
    found = planned("cancel", *(aim(key, status) for key, status in statuses.items()))

    undo = undo_of(found, [result("cancel", {"a": 2, "b": 9, "c": 4, "d": 5, "e": 6})], steady=100.0)

    assert undo is not None
    assert [(ask.op, ask.fields) for ask in undo.asks] == [
        ("actions", {"action": "rerun", "ids": ["a", "e"], "if_versions": {"a": 2, "e": 6}})
    ]
    assert undo.seconds_left(104.0) == 1.0
    assert "it was scheduled: that can't be restored" in [outcome.text for outcome in undo.left]


def test_6_the_cancel_of_what_waited_for_its_time_is_not_undone_by_a_run_at_once() -> None:
    assert undo_of(planned("cancel", aim("a", "scheduled")), [result("cancel", {"a": 2})], steady=0.0) is None


def test_6_what_was_refused_is_not_undone() -> None:
    assert undo_of(planned("pause", aim("a")), [result("pause", {}, a="no")], steady=0.0) is None
    assert undo_of(planned("rerun", aim("a", "completed")), [result("rerun", {"a": 2})], steady=0.0) is None


@given(st.integers(0, 3 * PORTION))
def test_6_portions_name_every_task_once_and_none_is_larger_than_a_request_takes(count: int) -> None:
    tasks = [aim(str(number)) for number in range(count)]

    found = list(portions(tasks))

    assert [key for ids in found for key in ids] == [task.id for task in tasks]
    assert all(len(ids) <= PORTION for ids in found)


def test_6_an_undo_says_of_how_many_and_which_it_could_not_bring_back() -> None:
    keys = [f"0000000{number}" for number in range(5)]
    undo = undo_of(planned("cancel", *map(aim, keys)), [result("cancel", dict.fromkeys(keys, 2))], steady=0.0)
    assert undo is not None

    one = result("rerun", dict.fromkeys(keys[1:], 3), **{keys[0]: "it has changed since"})
    many = result("rerun", {keys[0]: 3}, **dict.fromkeys(keys[1:], "it has changed since"))

    assert undo_report(undo, [result("rerun", dict.fromkeys(keys, 3))]).text == "undone: rerun 5 tasks"
    assert undo_report(undo, [one]).text == "undone: rerun 4 of 5 tasks, but not 00000000: it has changed since"
    few = "undone: rerun 1 of 5 tasks, but not 00000001, 00000002, 00000003 and 1 more"
    assert undo_report(undo, [many]).text == f"{few}: it has changed since"
    mixed = result("rerun", {keys[0]: 3}, **{**dict.fromkeys(keys[1:], "it has changed since"), keys[4]: "it is gone"})
    assert undo_report(undo, [mixed]).text == few
    assert [outcome.id for outcome in undo_report(undo, [many]).outcomes if not outcome.ok] == keys[1:]


def test_6_an_undo_counts_what_had_begun_among_what_it_could_not_bring_back() -> None:
    done = planned("cancel", aim("waiting1"), aim("running1", "running"))
    undo = undo_of(done, [result("cancel", {"waiting1": 2, "running1": 2})], steady=0.0)
    assert undo is not None

    said = undo_report(undo, [result("rerun", {"waiting1": 3})])

    assert said.text == "undone: rerun 1 of 2 tasks, but not running1: it was running: that can't be restored"
    assert not said.ok


def test_6_an_undo_that_breaks_off_says_what_is_not_known() -> None:
    keys = [f"{number:08}" for number in range(PORTION + 2)]
    undo = undo_of(planned("cancel", *map(aim, keys)), [result("cancel", dict.fromkeys(keys, 2))], steady=0.0)
    assert undo is not None

    said = undo_report(undo, [result("rerun", dict.fromkeys(keys[:PORTION], 3))], broken="the connection is gone")

    lost = "but not 00001000, 00001001: unknown: no answer came"
    assert said.text == f"undone: rerun 1,000 of 1,002 tasks, {lost}; then the connection is gone"
    assert [outcome.text for outcome in said.outcomes if not outcome.ok] == ["unknown: no answer came"] * 2


def test_6_what_was_never_asked_for_is_not_said_to_be_unknown() -> None:
    """Of the thousands behind the portion that broke off nothing was sent."""
    keys = [f"{number:08}" for number in range(2 * PORTION + 1)]
    found = planned("cancel", *map(aim, keys))
    undo = undo_of(found, [result("cancel", dict.fromkeys(keys, 2))], steady=0.0)
    assert undo is not None
    first = dict.fromkeys(keys[:PORTION], 3)

    for said in (
        report(found, [result("cancel", first)], broken="the connection is gone"),
        undo_report(undo, [result("rerun", first)], broken="the connection is gone"),
    ):
        words = {outcome.id: outcome.text for outcome in said.outcomes if not outcome.ok}
        assert list(words) == keys[PORTION:]
        assert words[keys[PORTION]] == words[keys[2 * PORTION - 1]] == "unknown: no answer came"
        assert words[keys[2 * PORTION]] == "not tried: the request failed before this one"


def test_6_of_an_undo_stays_what_was_not_answered_or_tried_and_what_workers_have_still_to_stop() -> None:
    keys = [f"{number:08}" for number in range(PORTION + 1)]
    running = [aim(key, "running") for key in keys]
    undo = undo_of(planned("pause", *running), [result("pause", dict.fromkeys(keys, 2))], steady=0.0)
    assert undo is not None
    stands: list[dict[str, Any]] = [
        {"outcome": "untried"},
        {"status": "running", "version": 2},
        {"status": "paused", "version": 3, "outcome": "changed"},
        # Somebody was there since.
        {"status": "running", "version": 5, "outcome": "changed"},
        {"status": "paused", "version": 4, "outcome": "changed"},
    ]
    answer = result("resume", dict.fromkeys(keys[:-6], 4)).model_copy(
        update={
            "problems": [
                BulkProblem(id=key, type="", detail="not now", **at)
                for key, at in zip(keys[-6:-1], stands, strict=True)
            ]
        }
    )

    rest = rest_of(undo, [answer], steady=3.0)

    assert rest is not None
    first, second = keys[-6:-3], keys[-1:]
    assert [ask.fields["if_versions"] for ask in rest.asks] == [dict.fromkeys(first, 2), dict.fromkeys(second, 2)]
    assert rest.seconds_left(3.0) == STOPPING_SECONDS
    words = {outcome.id: outcome.text for outcome in undo_report(undo, [answer], broken="gone").outcomes}
    assert [words[key] for key in keys[-6:-1]] == ["not now", STOPPING, STOPPING, CHANGED, CHANGED]
    done = [result("resume", dict.fromkeys(ids, 4)) for ids in (first, second)]
    assert rest_of(rest, done, steady=4.0) is None


def test_6_of_an_undo_that_brought_nothing_back_it_is_not_said_that_it_was_undone() -> None:
    undo = undo_of(planned("pause", aim("a", "running")), [result("pause", {"a": 2})], steady=0.0)
    assert undo is not None

    said = undo_report(undo, [result("resume", {}, a="it has changed since")])

    assert said.text == "not undone: resumed 0 of 1 task, but not a: it has changed since"


def test_6_what_one_has_asked_to_pause_oneself_may_be_asked_again_and_is_undone_still() -> None:
    found = planned("pause", aim("mine", "running", version=2), aim("theirs", "running", version=2))
    answer = as_done(found, result("pause", {"mine": 2, "theirs": 2}), own={"mine": 2})

    assert (
        report(found, [answer]).text == "asked 1 task to pause, skipped 1: somebody else has already asked it to pause"
    )
    undo = undo_of(found, [answer], steady=0.0)
    assert undo is not None
    assert [ask.fields["ids"] for ask in undo.asks] == [["mine"]]


def test_6_why_several_were_left_alone_is_told_where_it_is_the_same_of_all() -> None:
    changed = [
        BulkProblem(id=key, type="", outcome="changed", detail=f"the task is at version {version}, not 1")
        for key, version in (("b", 5), ("c", 7))
    ]
    answer = result("cancel", {"a": 2}).model_copy(update={"problems": changed})

    said = report(planned("cancel", *map(aim, "abc")), [answer])

    assert said.text == "cancelled 1 task, skipped 2: it has changed since"


def test_6_a_resume_is_not_taken_back_of_what_somebody_else_has_touched_since() -> None:
    resumed = planned("resume", *(aim(key, "paused") for key in "abcd"))
    undo = undo_of(resumed, [result("resume", dict.fromkeys("abcd", 2))], steady=0.0)
    assert undo is not None
    stands = {"a": ("claimed", 3), "b": ("running", 4), "c": ("running", 5), "d": ("pending", 3)}
    problems = [
        BulkProblem(id=key, type="", outcome="changed", detail="", status=Status(status), version=version)
        for key, (status, version) in stands.items()
    ]

    assert begun_since(undo.asks[0], result("pause", {}).model_copy(update={"problems": problems})) == {"a": 3, "b": 4}

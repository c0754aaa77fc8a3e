"""What must be so of tasks that wait for others: they begin after them, with their results, and end with them."""

from collections.abc import Iterator
from typing import Any

from tests.history.known import Known
from tests.history.records import Mark, Said, Violation

Needs = dict[str, list[str]]
"""The ids of the tasks that one waits for, by the names that it calls them."""


def nothing_begins_early(known: Known) -> Iterator[Violation]:
    """Code begins when what it waits for has completed; with the policy `run`, when all of it has ended."""
    for task in known.rows:
        submit, needs = _needs(known, task)
        if submit is None or not needs:
            continue
        policy = _policy(submit)
        for mark in (one for one in known.marks[task] if one.what == "begin"):
            for other in (one for several in needs.values() for one in several):
                may = _has_completed(known, other, mark.at) or (
                    policy == "run" and _may_have_failed(known, other, mark.at)
                )
                if not may:
                    yield Violation("early", task, f"run {mark.run} began at {mark.at:.3f}, and {other} had not ended")


def results_are_handed_on(known: Known) -> Iterator[Violation]:
    """Code is given the results of those that it waits for, and None for one that did not complete, or runs again."""
    for task in known.rows:
        submit, needs = _needs(known, task)
        if submit is None:
            continue
        for mark in (one for one in known.marks[task] if one.what == "given"):
            if mark.note.keys() != needs.keys():
                yield Violation("wrong-given", task, f"run {mark.run} was given {sorted(mark.note)}, not {list(needs)}")
                continue
            for name, ids in needs.items():
                yield from _not_of(known, mark, ids, mark.note[name])


def _not_of(known: Known, mark: Mark, ids: list[str], given: Any) -> Iterator[Violation]:
    """Yield what is no result of the tasks; a single one's may stand alone."""
    several = given if isinstance(given, list) else [given]
    if len(several) != len(ids):
        yield Violation("wrong-given", mark.task, f"run {mark.run} was given {len(several)} results of {len(ids)}")
        return
    for other, one in zip(ids, several, strict=True):
        if one is None:
            is_again = any(said.sent <= mark.at for said in known.asked(other, "rerun"))
            is_right = is_again or _may_have_failed(known, other, mark.at)
        else:
            is_right = other in known.rows and one == {"n": known.rows[other].payload["n"]}
        if not is_right:
            yield Violation("wrong-given", mark.task, f"run {mark.run} was given {one!r} of {other}")


def failures_go_on_through_flows(known: Known) -> Iterator[Violation]:
    """Who is cancelled and was not asked to be waited for one that failed, and its policy is `cancel`."""
    for row in known.rows.values():
        if row.reason != "dependency-failed":
            continue
        submit, needs = _needs(known, row.id)
        several = [one for ids in needs.values() for one in ids]
        if submit is None or _policy(submit) != "cancel":
            yield Violation("wrong-cancel", row.id, "it was cancelled for what it waits for, which is not its policy")
        elif not any(_may_have_failed(known, one, float("inf")) for one in several):
            yield Violation("wrong-cancel", row.id, "it was cancelled for what it waits for, and none of that failed")


def may_lack_an_argument(known: Known, task: str) -> bool:
    """Whether a result that is its argument may have been missing when it was claimed: its task was to run again.

    What is in its queue by then waits for that no more.
    """
    submit, needs = _needs(known, task)
    names = {} if submit is None else submit.fields.get("arguments_from") or {}
    return any(known.asked(one, "rerun") for name in names.values() for one in needs[name])


def _needs(known: Known, task: str) -> tuple[Said | None, Needs]:
    submit = next(iter(known.asked(task, "submit")), None)
    return submit, {} if submit is None else submit.fields.get("depends_on") or {}


def _policy(submit: Said) -> str:
    policy: str = submit.fields.get("on_dependency_failure", "cancel")
    return policy


def _has_completed(known: Known, task: str, at: float) -> bool:
    """Whether the code of a run that completed had come to its end."""
    completed = {run.run for run in known.runs[task] if run.status == "completed"}
    return any(one.what == "end" and one.run in completed and one.at <= at for one in known.marks[task])


def _may_have_failed(known: Known, task: str, at: float) -> bool:
    """Whether it may have failed or been cancelled by then: its retries were spent, or somebody asked for it."""
    row = known.rows.get(task)
    if row is None:
        return False
    failed = {run.run for run in known.runs[task] if (run.status, run.reason) == ("failed", "error")}
    raised = [one for one in known.marks[task] if one.what == "raise" and one.run in failed and one.at <= at]
    if len(raised) > row.max_retries or any(one.sent <= at for one in known.asked(task, "cancel")):
        return True
    submit, needs = _needs(known, task)
    goes_on = submit is not None and _policy(submit) == "cancel"
    return goes_on and any(_may_have_failed(known, one, at) for several in needs.values() for one in several)


RULES = (nothing_begins_early, results_are_handed_on, failures_go_on_through_flows)

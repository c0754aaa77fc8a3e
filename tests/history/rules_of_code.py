"""What must be so of the code that ran, by what it wrote down itself."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.history.known import Known, writes_that_may_stand
from tests.history.records import Mark, Said, Violation

Resource = tuple[str, str | None]
"""A target is known by its room and its name."""

GRACE = 5.0
"""Seconds beyond its lease in which the code of a cancelled run comes to its end, on a busy machine."""


def no_run_is_executed_twice(known: Known) -> Iterator[Violation]:
    """Code begins once for each run."""
    for task, marks in known.marks.items():
        began: dict[int, Mark] = {}
        for mark in (one for one in marks if one.what == "begin"):
            first = began.setdefault(mark.run, mark)
            if first is not mark:
                yield Violation("run-twice", task, f"run {mark.run} began at {first.worker} and at {mark.worker}")


def runs_that_ran_are_kept(known: Known) -> Iterator[Violation]:
    """Every run whose code began stands in the tables, and says of its end what the code says."""
    for task, marks in known.marks.items():
        ended = {mark.run: mark.what for mark in marks}
        kept = {run.run: run.status for run in known.runs[task]}
        for run, what in ended.items():
            if run not in kept:
                yield Violation("run-unknown", task, f"the code of run {run} ran, and there is no such run")
            elif (what, kept[run]) in {("end", "failed"), ("raise", "completed")}:
                yield Violation("wrong-outcome", task, f"run {run} is {kept[run]}, and its code wrote: {what}")


def what_completed_ran(known: Known) -> Iterator[Violation]:
    """The code of each run that completed came to its end, unless the task was settled by hand."""
    for row in known.rows.values():
        ended = {mark.run for mark in known.marks[row.id] if mark.what == "end"}
        for run in known.runs[row.id]:
            if run.status == "completed" and run.run not in ended and not row.settled:
                yield Violation("wrong-outcome", row.id, f"run {run.run} completed, and its code came to no end")


def code_gets_its_payload(known: Known) -> Iterator[Violation]:
    """A run is given what was last written before it began."""
    for task, marks in known.marks.items():
        writes = [one for one in known.asked(task, "submit", "edit") if one.op == "submit" or "payload" in one.fields]
        for mark in (one for one in marks if one.what == "begin"):
            possible = [one.fields["payload"]["n"] for one in writes_that_may_stand(writes, mark.at)]
            if possible and mark.n not in possible:
                yield Violation("wrong-payload", task, f"run {mark.run} was given {mark.n}, not one of {possible}")


def targets_exclude(known: Known) -> Iterator[Violation]:
    """No two runs of one target run at once, but for what a process does that wakes after its lease."""
    spans: dict[Resource, list[tuple[float, float, Mark]]] = defaultdict(list)
    for marks in known.marks.values():
        runs: dict[int, list[Mark]] = defaultdict(list)
        for mark in marks:
            if mark.target is not None and (mark.what == "begin" or not known.wakes(mark)):
                runs[mark.run].append(mark)
        for several in runs.values():
            resource = _room(known, several[0].task), several[0].target
            spans[resource].append((several[0].at, several[-1].at, several[0]))
    for (_, target), several in spans.items():
        several.sort(key=lambda one: one[0])
        for (_, until, mark), (begin, _, other) in pairwise(several):
            if begin < until:
                yield Violation(
                    "overlap",
                    other.task,
                    f"run {other.run} of target {target} began {until - begin:.3f} s before run {mark.run} of"
                    f" {mark.task} was over",
                )


def targets_keep_order(known: Known) -> Iterator[Violation]:
    """What nobody steers and has the same priority runs in the order in which its target was asked.

    That is the order of due times: where the clock was set back between two submits the later one may go first.
    """
    queues: dict[Resource, list[str]] = defaultdict(list)
    for row in known.rows.values():
        if row.target is not None and not known.is_steered(row.id) and known.marks[row.id]:
            queues[row.room, row.target].append(row.id)
    for (_, target), tasks in queues.items():
        for one, other in pairwise(sorted(tasks, key=lambda task: known.marks[task][0].at)):
            first, then = _submit(known, one), _submit(known, other)
            if first is None or then is None or "delay" in first.fields or "delay" in then.fields:
                continue
            early, late = known.rows[one], known.rows[other]
            if early.priority == late.priority and then.ends_before(first) and late.created_at <= early.created_at:
                yield Violation("order", other, f"target {target} was given it before {one}, which ran first")


def _room(known: Known, task: str) -> str:
    row = known.rows.get(task)
    return "" if row is None else row.room


def _submit(known: Known, task: str) -> Said | None:
    return next((one for one in known.asked(task, "submit") if one.is_done), None)


def cancelled_code_stops(known: Known) -> Iterator[Violation]:
    """Of a run that was cancelled no code runs longer than its lease and a grace.

    Without a target it may run on while its worker can't be told: then the time counts from the last fault on.
    """
    for task, marks in known.marks.items():
        row = known.rows.get(task)
        for cancel in (one for one in known.asked(task, "cancel") if one.is_done and one.answered is not None):
            patience = GRACE + (row.lease_seconds if row else 0.0)
            last = cancel.answered + patience
            if not (row and row.target):
                last = known.disturbed_until(cancel.answered, patience)
            for mark in marks:
                if mark.at > last and _is_of(mark, cancel, marks) and not known.wakes(mark):
                    late = mark.at - (cancel.answered or 0.0)
                    yield Violation("cancelled-runs", task, f"run {mark.run} went on {late:.1f} s after its cancel")
                    break


def _is_of(mark: Mark, cancel: Said, marks: list[Mark]) -> bool:
    """Whether a mark is of a run that the cancel ended."""
    if (run := cancel.told.get("run_id")) is not None:
        return mark.run <= run
    began = next((one.at for one in marks if one.run == mark.run), mark.at)
    return began < cancel.sent


RULES = (
    no_run_is_executed_twice,
    runs_that_ran_are_kept,
    what_completed_ran,
    code_gets_its_payload,
    targets_exclude,
    targets_keep_order,
    cancelled_code_stops,
)

"""What must be so of the tables, given what was acknowledged and what was seen."""

from collections import Counter
from collections.abc import Iterator

from tests.history.known import Known, writes_that_may_stand
from tests.history.records import TERMINAL, RunRow, Said, TaskRow, Violation
from tests.history.rules_of_flows import may_lack_an_argument

RETRIED = ("error", "timeout")
REQUEUED = ("worker-shutdown", "intermittent-task", "claim-expired", "start-timeout")
REVIVING = ("resume", "rerun", "resolve")


def acknowledged_submits_are_kept(known: Known) -> Iterator[Violation]:
    """An acknowledged task is there; whoever is there was put in by somebody."""
    for task, several in known.said.items():
        if any(one.op == "submit" and one.is_done for one in several) and task not in known.rows:
            yield Violation("lost", task, "its submit was acknowledged, and there is no such task")
    for task in known.rows:
        if not known.asked(task, "submit"):
            yield Violation("unasked", task, "nobody put it in, or whoever did was refused")


def tasks_end(known: Known) -> Iterator[Violation]:
    """Whatever was put in has ended when all is over."""
    for row in known.rows.values():
        if row.status not in TERMINAL:
            yield Violation("open", row.id, f"it is {row.status} at the end")


def fields_last(known: Known) -> Iterator[Violation]:
    """What an acknowledged submit or edit wrote stays until another one changes it."""
    for row in known.rows.values():
        writes = known.asked(row.id, "submit", "edit")
        for name, unless in (("payload", {}), ("priority", 0)):
            those = [one for one in writes if one.op == "submit" or name in one.fields]
            possible = [one.fields.get(name, unless) for one in writes_that_may_stand(those)]
            found = getattr(row, name)
            if possible and found not in possible:
                yield Violation("edit-lost", row.id, f"its {name} is {found!r}, and was to be one of {possible!r}")


def results_are_of_the_payload(known: Known) -> Iterator[Violation]:
    """A task that completed has the result of its own payload."""
    for row in known.rows.values():
        if row.status == "completed" and not row.settled and row.result != {"n": row.payload["n"]}:
            yield Violation("wrong-result", row.id, f"of {row.payload!r} came {row.result!r}")


def cancels_last(known: Known) -> Iterator[Violation]:
    """A task whose cancel was acknowledged stays cancelled until it is run again."""
    for row in known.rows.values():
        for cancel in known.asked(row.id, "cancel"):
            if cancel.is_done and row.status != "cancelled" and not _may_follow(known, cancel):
                yield Violation("cancel-lost", row.id, f"its cancel was acknowledged, and it is {row.status}")


def _may_follow(known: Known, verb: Said) -> bool:
    return any(not one.ends_before(verb) for one in known.asked(verb.task, *REVIVING))


def completed_once(known: Known) -> Iterator[Violation]:
    """One run of a task completes, and another one only after it was run again."""
    for row in known.rows.values():
        runs = Counter(run.status for run in known.runs[row.id])["completed"]
        again = len(known.asked(row.id, *REVIVING))
        if runs > 1 + again:
            yield Violation("completed-twice", row.id, f"{runs} of its runs completed in {1 + again} lives")
        if row.status == "completed" and runs == 0:
            yield Violation("completed-by-nobody", row.id, "it is completed, and none of its runs is")


def runs_are_counted(known: Known) -> Iterator[Violation]:
    """Runs are numbered from 0 without a gap, and no two have one number."""
    for row in known.rows.values():
        numbers = [run.run for run in known.runs[row.id]]
        if row.status in TERMINAL and numbers != list(range(len(numbers))):
            yield Violation("run-numbers", row.id, f"its runs are {numbers}")


def runs_are_explained_by_budgets(known: Known) -> Iterator[Violation]:
    """No more runs than the two budgets allow, and no failure before they are spent."""
    for row in known.rows.values():
        runs, lives = known.runs[row.id], 1 + len(known.asked(row.id, *REVIVING))
        spent = {"retries": _count(runs, RETRIED), "requeues": _count(runs, REQUEUED)}
        for name, most in (("retries", row.max_retries), ("requeues", row.max_requeues)):
            if spent[name] > (most + 1) * lives or (row.status == "completed" and lives == 1 and spent[name] > most):
                yield Violation(
                    "over-budget", row.id, f"{spent[name]} runs were of its {most} {name}, in {lives} lives"
                )
        if row.status == "failed" and not row.settled and lives == 1:
            yield from _failed_rightly(known, row, spent)


def _failed_rightly(known: Known, row: TaskRow, spent: dict[str, int]) -> Iterator[Violation]:
    runs = known.runs[row.id]
    last = runs[-1].reason if runs else None
    if last in RETRIED and spent["retries"] == row.max_retries + 1:
        return
    if last in REQUEUED and spent["requeues"] == row.max_requeues + 1:
        return
    if row.reason == "deadline-exceeded" or (last == "malformed-payload" and may_lack_an_argument(known, row.id)):
        return
    budgets = f"{row.max_retries} retries and {row.max_requeues} requeues"
    yield Violation("failed-early", row.id, f"it failed by {last}, after {spent} of {budgets}")


def _count(runs: list[RunRow], reasons: tuple[str, ...]) -> int:
    return sum(run.reason in reasons and run.status in {"failed", "exception"} for run in runs)


def ended_runs_never_change(known: Known) -> Iterator[Violation]:
    """What was once read of an ended run is what is read ever after, and what the tables have."""
    for task, several in known.said.items():
        read: dict[int, tuple[str, str | None]] = {}
        for said in (one for one in several if one.op == "runs" and one.is_done):
            for item in said.told.get("items", ()):
                if item.get("ended_at") is not None:
                    now = (item["status"], item["reason"])
                    before = read.setdefault(item["run_id"], now)
                    if before != now:
                        yield Violation("run-changed", task, f"run {item['run_id']} was {before} and became {now}")
        kept = {run.run: (run.status, run.reason) for run in known.runs[task]}
        for number, seen in read.items():
            if kept.get(number) != seen:
                yield Violation("run-changed", task, f"run {number} was {seen} and is {kept.get(number)}")


def nobody_reads_back(known: Known) -> Iterator[Violation]:
    """Who asks after an answer was there reads nothing older than it, and the tables are no older either."""
    for task, several in known.said.items():
        told = sorted(
            (one for one in several if one.is_done and one.told.get("version") and one.answered),
            key=lambda one: one.answered or 0.0,
        )
        row = known.rows.get(task)
        best, at, i = 0, 0.0, 0
        for said in sorted(told, key=lambda one: one.sent):
            while i < len(told) and (told[i].answered or 0.0) < said.sent:
                if told[i].told["version"] > best:
                    best, at = told[i].told["version"], told[i].answered or 0.0
                i += 1
            if said.told["version"] < best:
                yield Violation(
                    "read-back",
                    task,
                    f"{said.client} read version {said.told['version']} by {said.op} {said.sent - at:.3f} s after"
                    f" version {best} was told",
                )
        newest = max((one.told["version"] for one in told), default=0)
        if row is not None and row.version < newest:
            yield Violation("read-back", task, f"version {newest} was told, and it has {row.version}")


def observers_know_what_is(known: Known) -> Iterator[Violation]:
    """When all is quiet an observer has each task's last state."""
    for observer, states in known.history.observed.items():
        scope = known.history.scopes.get(observer, known.rows.keys())
        for row in (known.rows[task] for task in scope if task in known.rows):
            if states.get(row.id) != (row.status, row.version):
                seen = states.get(row.id)
                yield Violation("observer", row.id, f"{observer} has {seen}, it is {(row.status, row.version)}")
        for task in states.keys() - known.rows.keys():
            yield Violation("observer", task, f"{observer} knows it, and there is none")


RULES = (
    acknowledged_submits_are_kept,
    tasks_end,
    fields_last,
    results_are_of_the_payload,
    cancels_last,
    completed_once,
    runs_are_counted,
    runs_are_explained_by_budgets,
    ended_runs_never_change,
    nobody_reads_back,
    observers_know_what_is,
)

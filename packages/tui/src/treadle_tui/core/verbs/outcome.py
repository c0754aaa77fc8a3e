"""The result of a bulk action: its summary, the outcome for each task, and how to undo it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from treadle.wire.amounts import counted
from treadle.wire.bulk import BulkProblem, BulkResult
from treadle.wire.status import LEASED, WAITING, Status
from treadle.wire.transitions import ADMITS, LEADS_TO
from treadle_tui.core.draw.format import short_id
from treadle_tui.core.draw.text import clean
from treadle_tui.core.state.marks import TaskRef
from treadle_tui.core.verbs.action import PAST, Verb
from treadle_tui.core.verbs.plan import UNDO_SECONDS, Ask, Outcome, Plan, Report, Undo

PORTION = 1000
"""How many tasks a request names. Each portion is one transaction, and other requests get their turn in between."""

NAMED = 3
"""How many of the tasks that an undo could not restore are named in its summary; `report` shows all."""

STOPPING_SECONDS = 30.0
"""How long to keep offering an undo for tasks that are still being stopped: their code may tidy up first."""

UNKNOWN = "unknown: no answer came"
NOT_ASKED = "not tried: the request failed before this one"
CHANGED = "it has changed since"
PAUSING = "somebody else has already asked it to pause"
STOPPING = "its worker had not stopped it yet"

INVERSE: dict[Verb, Verb] = {"cancel": "rerun", "pause": "resume", "resume": "pause"}

_RESTORES: dict[Verb, frozenset[Status]] = {
    "cancel": WAITING - {Status.SCHEDULED},  # not scheduled ones: a rerun ignores the time and runs at once
    "pause": ADMITS["pause"],
    "resume": LEADS_TO["pause"],
}
"""The statuses to which the inverse verb restores a task."""


def portions(tasks: Sequence[TaskRef]) -> Iterator[list[str]]:
    """Yield the ids in portions that fit into a request."""
    for first in range(0, len(tasks), PORTION):
        yield [task.id for task in tasks[first : first + PORTION]]


def as_done(planned: Plan, answer: BulkResult, own: Mapping[str, int]) -> BulkResult:
    """Return an answer in which tasks that it did not change count as problems: somebody else changed them.

    `own` has the versions that this dashboard's last action gave: a pause that it requested itself may be repeated.
    """
    before = {task.id: task.version for task in planned.tasks}
    same = {key for key, version in answer.versions.items() if before[key] == version and own.get(key) != version}
    versions = {key: version for key, version in answer.versions.items() if key not in same}
    problems = [*answer.problems, *(BulkProblem(id=key, type="", detail=PAUSING) for key in same)]
    return answer.model_copy(update={"versions": versions, "changed": len(versions), "problems": problems})


def report(planned: Plan, results: Sequence[BulkResult], *, broken: str | None = None) -> Report:
    """Return a report of what was done; `broken` is the error that kept the remaining portions from being answered."""
    changed = sum(result.changed for result in results)
    problems = {problem.id: _why(problem) for result in results for problem in result.problems}
    text = f"{PAST[planned.verb]} {counted(changed, 'task')}"
    if planned.verb == "pause" and planned.running:
        text = f"asked {counted(changed, 'task')} to pause"
    if left := len(planned.left) + len(problems):
        text += f", skipped {left:,}"
    if len(set(problems.values())) == 1 or (problems and not changed):
        text += f": {clean(next(iter(problems.values())), limit=200)}"
    if broken is not None:
        text += f"; then {clean(broken, limit=200)}"
    done = {key for result in results for key in result.versions}
    outcomes = tuple(_outcomes(planned, done, problems, asked=(len(results) + 1) * PORTION))
    return Report(text, ok=not problems and broken is None, outcomes=outcomes)


def _outcomes(planned: Plan, done: set[str], problems: dict[str, str], *, asked: int) -> Iterator[Outcome]:
    for place, task in enumerate(planned.tasks):
        if task.id in done:
            yield Outcome(task.id, ok=True, text=f"{PAST[planned.verb]}; it was {task.status.value}")
        else:
            unknown = UNKNOWN if place < asked else NOT_ASKED
            yield Outcome(task.id, ok=False, text=problems.get(task.id, unknown))
    for task in planned.left:
        yield Outcome(task.id, ok=False, text=f"skipped: it is {task.status.value}")


def undo_of(planned: Plan, results: Sequence[BulkResult], steady: float) -> Undo | None:
    """Return the undo: the inverse verb for the tasks whose state it restores; None if there are none."""
    if planned.verb not in INVERSE:
        return None
    versions = {key: version for result in results for key, version in result.versions.items()}
    changed = [task for task in planned.tasks if task.id in versions]
    able = [task for task in changed if task.status in _RESTORES[planned.verb]]
    if not able:
        return None
    left = tuple(
        Outcome(task.id, ok=False, text=f"it was {task.status.value}: that can't be restored")
        for task in changed
        if task.status not in _RESTORES[planned.verb]
    )
    inverse = INVERSE[planned.verb]
    asks = tuple(
        Ask("actions", {"action": inverse, "ids": ids, "if_versions": {key: versions[key] for key in ids}})
        for ids in portions(able)
    )
    # If the version has grown by more than the pause, something else happened, and a worker may hold the task now.
    stopping = {
        task.id: versions[task.id]
        for task in able
        if planned.verb == "pause" and (task.status in LEASED or versions[task.id] != task.version + 1)
    }
    return Undo(asks, PAST[inverse], steady + UNDO_SECONDS, left, stopping)


_BEGUN = {Status.CLAIMED: 1, Status.RUNNING: 2}
"""By how much a task's version grows when a worker claims or starts it, and nobody else changes it."""


def begun_since(ask: Ask, answer: BulkResult) -> dict[str, int]:
    """Return the tasks whose resume was not undone only because a worker took them, with their current versions."""
    if ask.fields["action"] != "pause":
        return {}
    then = ask.fields["if_versions"]
    problems = [one for one in answer.problems if one.status in _BEGUN]
    now = {one.id: then[one.id] + _BEGUN[one.status] for one in problems if one.status is not None}
    return {one.id: now[one.id] for one in problems if one.version == now[one.id]}


def with_those(first: BulkResult, then: BulkResult) -> BulkResult:
    """Return the first answer, updated by the answer for the tasks that were requested again."""
    versions = {**first.versions, **then.versions}
    asked = {*then.versions, *(problem.id for problem in then.problems)}
    problems = [*(problem for problem in first.problems if problem.id not in asked), *then.problems]
    return first.model_copy(update={"versions": versions, "changed": len(versions), "problems": problems})


def undo_report(undo: Undo, answers: Sequence[BulkResult], *, broken: str | None = None) -> Report:
    """Return a report of how many tasks were restored, and which were not; `broken` is the error that stopped it."""
    outcomes = [*undo.left]
    for place, ask in enumerate(undo.asks):
        if place < len(answers):
            outcomes += _undone(answers[place], undo)
        else:
            why = UNKNOWN if place == len(answers) else NOT_ASKED
            outcomes += [Outcome(key, ok=False, text=why) for key in ask.fields.get("ids", ())]
    lost = [outcome for outcome in outcomes if not outcome.ok]
    text = f"undone: {undo.past}" if len(lost) < len(outcomes) or not outcomes else f"not undone: {undo.past}"
    if outcomes:
        of_all = counted(len(outcomes), "task")
        text += f" {len(outcomes) - len(lost):,} of {of_all}, but not {_which(lost)}" if lost else f" {of_all}"
    if broken is not None:
        text += f"; then {clean(broken, limit=200)}"
    return Report(text, ok=not lost and broken is None, outcomes=tuple(outcomes))


def _which(lost: Sequence[Outcome]) -> str:
    """Name the first few tasks that were not restored, and the reason if it is the same for all."""
    named = ", ".join(short_id(outcome.id) for outcome in lost[:NAMED])
    named += f" and {len(lost) - NAMED:,} more" if len(lost) > NAMED else ""
    why = {outcome.text for outcome in lost}
    return named if len(why) > 1 else f"{named}: {clean(why.pop(), limit=200)}"


def _undone(result: BulkResult, undo: Undo) -> Iterator[Outcome]:
    yield from (Outcome(key, ok=True, text=undo.past) for key in result.versions)
    for problem in result.problems:
        yield Outcome(problem.id, ok=False, text=STOPPING if _is_stopping(problem, undo) else _why(problem))


def _why(problem: BulkProblem) -> str:
    """Return why a task was not changed, without the versions, which are of no use to the user."""
    return CHANGED if problem.outcome == "changed" else problem.detail


def _is_stopping(problem: BulkProblem, undo: Undo) -> bool:
    """Return whether the task is only waiting for its worker to stop it, or was stopped, and nobody else changed it."""
    if problem.status is Status.PAUSED:
        return problem.version == undo.stopping.get(problem.id, -1) + 1
    return problem.id in undo.stopping and problem.outcome == "refused" and problem.status in LEASED


def rest_of(undo: Undo, answers: Sequence[BulkResult], steady: float) -> Undo | None:
    """Return what can still be undone, guarded by versions; None if there is nothing left.

    This is what was not answered, what the server left untried, and what workers have still to stop; those get time to
    do so.
    """
    asks: list[Ask] = []
    for ask, answer in zip(undo.asks, answers, strict=False):
        if ids := [one.id for one in answer.problems if one.outcome == "untried" or _is_stopping(one, undo)]:
            versions = ask.fields["if_versions"]
            asks.append(Ask(ask.op, {**ask.fields, "ids": ids, "if_versions": {key: versions[key] for key in ids}}))
    until = steady + STOPPING_SECONDS if asks else undo.until
    asks += undo.asks[len(answers) :]
    return replace(undo, asks=tuple(asks), until=until, left=() if answers else undo.left) if asks else None

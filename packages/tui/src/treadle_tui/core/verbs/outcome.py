"""What a bulk action did: the line that is told, a word for each task, and how to take it back."""

from collections.abc import Iterator, Sequence

from treadle.wire.status import WAITING, Status
from treadle.wire.tasks import BulkResult
from treadle.wire.transitions import ADMITS, LEADS_TO
from treadle_tui.core.draw.text import clean
from treadle_tui.core.state.marks import TaskRef
from treadle_tui.core.verbs.actions import PAST, Verb
from treadle_tui.core.verbs.plan import UNDO_SECONDS, Ask, Outcome, Plan, Report, Undo, tasks_word

PORTION = 1000
"""How many tasks a request names; each portion is one transaction, and others get their turn between."""

INVERSE: dict[Verb, Verb] = {"cancel": "rerun", "pause": "resume", "resume": "pause"}

_RESTORES: dict[Verb, frozenset[Status]] = {
    "cancel": WAITING,
    "pause": ADMITS["pause"],
    "resume": LEADS_TO["pause"],
}
"""From which states on the inverse verb brings a task back to what it was."""


def portions(tasks: Sequence[TaskRef]) -> Iterator[list[str]]:
    """Yield the ids in portions that one request takes."""
    for first in range(0, len(tasks), PORTION):
        yield [task.id for task in tasks[first : first + PORTION]]


def report(planned: Plan, results: Sequence[BulkResult], *, broken: str | None = None) -> Report:
    """Return what was done; `broken` says why not all portions were answered."""
    changed = sum(result.changed for result in results)
    problems = {problem.id: problem.detail for result in results for problem in result.problems}
    text = f"{PAST[planned.verb]} {tasks_word(changed)}"
    if planned.verb == "pause" and planned.running:
        text = f"asked {tasks_word(changed)} to pause"
    if left := len(planned.left) + len(problems):
        text += f", not {left:,}"
    if len(problems) == 1 or (problems and not changed):
        text += f": {clean(next(iter(problems.values())), limit=200)}"
    if broken is not None:
        text += f"; then {clean(broken, limit=200)}"
    done = {key for result in results for key in result.versions}
    outcomes = tuple(_outcomes(planned, done, problems))
    return Report(text, ok=not problems and broken is None, outcomes=outcomes)


def _outcomes(planned: Plan, done: set[str], problems: dict[str, str]) -> Iterator[Outcome]:
    for task in planned.tasks:
        if task.id in done:
            yield Outcome(task.id, ok=True, text=f"{PAST[planned.verb]}; it was {task.status.value}")
        else:
            yield Outcome(task.id, ok=False, text=problems.get(task.id, "not known: the answer never came"))
    for task in planned.left:
        yield Outcome(task.id, ok=False, text=f"left alone: it is {task.status.value}")


def undo_of(planned: Plan, results: Sequence[BulkResult], steady: float) -> Undo | None:
    """Return how to take it back: the inverse verb, for those whose former state it restores; None if for none."""
    if planned.verb not in INVERSE:
        return None
    versions = {key: version for result in results for key, version in result.versions.items()}
    able = [task for task in planned.tasks if task.id in versions and task.status in _RESTORES[planned.verb]]
    if not able:
        return None
    inverse = INVERSE[planned.verb]
    asks = tuple(
        Ask("actions", {"action": inverse, "ids": ids, "if_versions": {key: versions[key] for key in ids}})
        for ids in portions(able)
    )
    return Undo(asks, PAST[inverse], steady + UNDO_SECONDS)

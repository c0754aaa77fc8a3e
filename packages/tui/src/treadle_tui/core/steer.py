"""Decides what an action may do before anything is sent: to which tasks, after which question, or why not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from treadle.wire.status import LEASED, Status
from treadle.wire.tasks import BulkResult, TaskItem
from treadle_tui.core.actions import Verb
from treadle_tui.core.model import LinkState

ALLOWED: dict[Verb, frozenset[Status]] = {
    "cancel": frozenset({Status.SCHEDULED, Status.PENDING, Status.CLAIMED, Status.RUNNING, Status.PAUSED}),
    "pause": frozenset({Status.SCHEDULED, Status.PENDING, Status.CLAIMED, Status.RUNNING}),
    "resume": frozenset({Status.PAUSED, Status.FAILED}),
    "rerun": frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED}),
}
"""From which states each verb leads on; the server's own table decides in the end."""

COUNT_FROM = 101
"""From how many tasks on the count must be typed."""

PAST: dict[Verb, str] = {"cancel": "cancelled", "pause": "paused", "resume": "resumed", "rerun": "rerun"}

INVERSE: dict[Verb, Verb] = {"cancel": "rerun", "pause": "resume", "resume": "pause"}

UNDO_SECONDS = 5.0

Question: TypeAlias = Literal["none", "yes", "count"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an action is off."""

    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One verb for the tasks that it may act on, frozen at the key's press."""

    verb: Verb
    tasks: tuple[TaskItem, ...]
    skipped: int = 0
    """How many of the chosen ones are in no state for it."""

    @property
    def ids(self) -> list[str]:
        """The ids that the request names."""
        return [task.id for task in self.tasks]

    @property
    def running(self) -> int:
        """How many of them a worker holds now."""
        return sum(task.status in LEASED for task in self.tasks)

    @property
    def question(self) -> Question:
        """What must be answered first."""
        if len(self.tasks) >= COUNT_FROM:
            return "count"
        return "yes" if self.verb == "cancel" and self.running else "none"

    @property
    def title(self) -> str:
        """The question, in words."""
        return f"{self.verb.capitalize()} {tasks_word(len(self.tasks))}?"


@dataclass(frozen=True, slots=True)
class Undo:
    """How to take an action back, and until when."""

    verb: Verb
    versions: Mapping[str, int]
    until: float

    def seconds_left(self, steady: float) -> float:
        """Return for how long it still can be undone."""
        return max(0.0, self.until - steady)


@dataclass(frozen=True, slots=True)
class Report:
    """What a verb did, in a line, and for each id that it did not act on."""

    text: str
    ok: bool
    problems: Mapping[str, str] = field(default_factory=dict)


def off(link: LinkState, *, read_only: bool) -> Refusal | None:
    """Return why nothing can be changed now, or None."""
    if read_only:
        return Refusal("this dashboard is read-only")
    if not link.live:
        return Refusal(f"no connection: {link.detail or 'connecting'}")
    return None


def plan(verb: Verb, tasks: Sequence[TaskItem]) -> Plan | Refusal:
    """Return what `verb` will do to the tasks; a refusal when it can do nothing to any of them."""
    if not tasks:
        return Refusal("no task is highlighted")
    if verb == "resume":
        # `r` means the one of both verbs that is possible; failed tasks resume, for that keeps their checkpoint.
        verb = "resume" if any(task.status in ALLOWED["resume"] for task in tasks) else "rerun"
    able = tuple(task for task in tasks if task.status in ALLOWED[verb])
    if not able:
        states = ", ".join(sorted({task.status.value for task in tasks}))
        return Refusal(f"can't {verb} what is {states}")
    return Plan(verb, able, skipped=len(tasks) - len(able))


def report(planned: Plan, result: BulkResult) -> Report:
    """Return what was done, and why not where it was not."""
    text = f"{PAST[planned.verb]} {tasks_word(result.changed)}"
    if planned.verb == "pause" and planned.running:
        text = f"asked {tasks_word(result.changed)} to pause"
    left = planned.skipped + len(result.problems)
    if left:
        text += f", not {left}"
    problems = {problem.id: problem.detail for problem in result.problems}
    if problems and not result.changed:
        text += f": {next(iter(problems.values()))}"
    return Report(text, ok=not problems, problems=problems)


def undo_of(planned: Plan, result: BulkResult, steady: float) -> Undo | None:
    """Return how to take it back: the inverse verb, for those whose former state it restores; None if for none."""
    if planned.verb not in INVERSE:
        return None
    restores: dict[Verb, frozenset[Status]] = {
        "cancel": frozenset({Status.SCHEDULED, Status.PENDING}),
        "pause": frozenset(Status),
        "resume": frozenset({Status.PAUSED}),
    }
    versions = {
        task.id: result.versions[task.id]
        for task in planned.tasks
        if task.id in result.versions and task.status in restores[planned.verb]
    }
    if not versions:
        return None
    return Undo(INVERSE[planned.verb], versions, steady + UNDO_SECONDS)


def tasks_word(count: int) -> str:
    """Return `1 task`, `3 tasks`."""
    return f"{count:,} task{'' if count == 1 else 's'}"

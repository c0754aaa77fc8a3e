"""Decides what an action will do before anything is sent: to which tasks, after which question, or why not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from treadle.wire.amounts import counted
from treadle.wire.status import LEASED, OPEN, Status
from treadle.wire.transitions import ADMITS
from treadle_tui.core.state.marks import TaskRef
from treadle_tui.core.state.model import LinkState
from treadle_tui.core.verbs.action import Verb

COUNT_FROM = 101
"""From this many tasks on, the user must type their number to confirm."""

UNDO_SECONDS = 5.0

Question: TypeAlias = Literal["none", "yes", "count"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an action is not possible now."""

    reason: str

    @property
    def report(self) -> "Report":
        """The report that shows it to the user."""
        return Report(self.reason, ok=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """One verb for a set of tasks, fixed when the key was pressed."""

    verb: Verb
    tasks: tuple[TaskRef, ...]
    left: tuple[TaskRef, ...] = ()
    """The chosen tasks whose status doesn't allow the verb."""
    are_first: bool = False
    """Whether more tasks were meant than the server names at once; these are the first of them."""

    @property
    def if_versions(self) -> dict[str, int]:
        """The versions that a cancel requires.

        A task that had not started when the user decided must not be interrupted in the middle of a run, since that
        can't be undone: if it has started meanwhile, the server refuses.
        """
        if self.verb != "cancel":
            return {}
        return {task.id: task.version for task in self.tasks if task.status not in LEASED}

    @property
    def running(self) -> int:
        """How many of the tasks a worker holds now."""
        return sum(task.status in LEASED for task in self.tasks)

    @property
    def question(self) -> Question:
        """How the action must be confirmed."""
        if len(self.tasks) >= COUNT_FROM:
            return "count"
        # Resolving can't be undone.
        return "yes" if self.verb == "resolve" or (self.verb == "cancel" and self.running) else "none"

    @property
    def title(self) -> str:
        """The text of the question."""
        return f"{self.verb.capitalize()} {counted(len(self.tasks), 'task')}?"


class Ask(NamedTuple):
    """A request, ready to be sent."""

    op: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Undo:
    """How to undo an action, and until when."""

    asks: tuple[Ask, ...]
    past: str
    """What the undo does, in the past tense, such as `resumed`."""
    until: float
    left: "tuple[Outcome, ...]" = ()
    """The tasks that the action changed and that can't be restored, with the reason."""
    stopping: Mapping[str, int] = field(default_factory=dict)
    """The tasks that workers were asked to stop, with their versions then; a worker's stop is nobody else's change."""

    def seconds_left(self, steady: float) -> float:
        """Return for how many seconds it can still be undone."""
        return max(0.0, self.until - steady)


class Outcome(NamedTuple):
    """What happened to one task."""

    id: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was done: a summary, and the outcome for each task."""

    text: str
    ok: bool
    outcomes: tuple[Outcome, ...] = ()
    known: bool = True
    """Whether the outcome is known: the answer to a request may have been lost."""


def off(link: LinkState, *, read_only: bool) -> Refusal | None:
    """Return why nothing can be changed now, or None if it can."""
    if read_only:
        return Refusal("this dashboard is read-only")
    if not link.live:
        return Refusal(f"no connection: {link.detail or 'connecting'}")
    if link.may_write is False:
        return Refusal("the token is read-only: its scopes allow only reading")
    return None


_DOES: Mapping[str, frozenset[Status]] = {
    "cancel": ADMITS["cancel"],
    "pause": ADMITS["pause"],
    "resume": ADMITS["resume"] | ADMITS["rerun"],
    "rerun": ADMITS["rerun"],
    "edit": frozenset(Status) - LEASED,
    "send": OPEN,
}
"""The statuses in which a task's keys do anything, by the action's name."""


def does(action: str, states: Iterable[Status]) -> bool:
    """Return whether an action does anything in any of these statuses; true for one that doesn't depend on them."""
    return action not in _DOES or not _DOES[action].isdisjoint(states)


def plan(verb: Verb, tasks: Sequence[TaskRef], *, are_first: bool = False) -> Plan | Refusal:
    """Plan a verb for these tasks; return a refusal if none of them allows it."""
    if not tasks:
        return Refusal("no task is highlighted")
    if verb == "resume":
        # `r` means whichever verb is possible. Failed tasks are resumed, which keeps their checkpoint.
        verb = "resume" if any(task.status in ADMITS["resume"] for task in tasks) else "rerun"
    able = tuple(task for task in tasks if task.status in ADMITS[verb])
    if not able:
        states = ", ".join(sorted({task.status.value for task in tasks}))
        return Refusal(f"can't {verb} {states} tasks")
    left = tuple(task for task in tasks if task.status not in ADMITS[verb])
    return Plan(verb, able, left=left, are_first=are_first)

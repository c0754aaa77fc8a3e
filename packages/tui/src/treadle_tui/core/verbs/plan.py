"""Decides what an action may do before anything is sent: to which tasks, after which question, or why not."""

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
"""From how many tasks on the count must be typed."""

UNDO_SECONDS = 5.0

Question: TypeAlias = Literal["none", "yes", "count"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an action is off."""

    reason: str

    @property
    def report(self) -> "Report":
        """What is told of it."""
        return Report(self.reason, ok=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """One verb for the tasks that it may act on, frozen at the key's press."""

    verb: Verb
    tasks: tuple[TaskRef, ...]
    left: tuple[TaskRef, ...] = ()
    """The chosen ones that are in no state for it."""
    are_first: bool = False
    """Whether more were meant than the server names at once: these are the first of them."""

    @property
    def if_versions(self) -> dict[str, int]:
        """The versions that a cancel insists on.

        What had not started when the reader decided must not be stopped in the middle of a run unasked, and its
        cancel could not be undone: when it has begun meanwhile, the server refuses.
        """
        if self.verb != "cancel":
            return {}
        return {task.id: task.version for task in self.tasks if task.status not in LEASED}

    @property
    def running(self) -> int:
        """How many of them a worker holds now."""
        return sum(task.status in LEASED for task in self.tasks)

    @property
    def question(self) -> Question:
        """What must be answered first."""
        if len(self.tasks) >= COUNT_FROM:
            return "count"
        # What is settled by hand is not taken back.
        return "yes" if self.verb == "resolve" or (self.verb == "cancel" and self.running) else "none"

    @property
    def title(self) -> str:
        """The question, in words."""
        return f"{self.verb.capitalize()} {counted(len(self.tasks), 'task')}?"


class Ask(NamedTuple):
    """A request, ready to be sent."""

    op: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Undo:
    """How to take an action back, and until when."""

    asks: tuple[Ask, ...]
    past: str
    """What taking back does, as in `resumed`."""
    until: float
    left: "tuple[Outcome, ...]" = ()
    """The tasks that the action changed and that can't be brought back, with why."""
    stopping: Mapping[str, int] = field(default_factory=dict)
    """The tasks that a worker was to stop, by their versions then; when it has, that is a change by nobody else."""

    def seconds_left(self, steady: float) -> float:
        """Return for how long it still can be undone."""
        return max(0.0, self.until - steady)


class Outcome(NamedTuple):
    """What became of one task."""

    id: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was done: in a line, and for each task."""

    text: str
    ok: bool
    outcomes: tuple[Outcome, ...] = ()
    known: bool = True
    """Whether anybody knows what became of it: of what was sent the answer may have been lost."""


def off(link: LinkState, *, read_only: bool) -> Refusal | None:
    """Return why nothing can be changed now, or None."""
    if read_only:
        return Refusal("this dashboard is read-only")
    if not link.live:
        return Refusal(f"no connection: {link.detail or 'connecting'}")
    if link.may_write is False:
        return Refusal("the token may change nothing: its scopes are those of reading")
    return None


_DOES: Mapping[str, frozenset[Status]] = {
    "cancel": ADMITS["cancel"],
    "pause": ADMITS["pause"],
    "resume": ADMITS["resume"] | ADMITS["rerun"],
    "rerun": ADMITS["rerun"],
    "edit": frozenset(Status) - LEASED,
    "send": OPEN,
}
"""The states in which a task's keys do anything, by their actions' names."""


def does(action: str, states: Iterable[Status]) -> bool:
    """Return whether an action does anything in any of the states; one that asks for no task's state always does."""
    return action not in _DOES or not _DOES[action].isdisjoint(states)


def plan(verb: Verb, tasks: Sequence[TaskRef], *, are_first: bool = False) -> Plan | Refusal:
    """Return what `verb` will do to the tasks; a refusal when it can do nothing to any of them."""
    if not tasks:
        return Refusal("no task is highlighted")
    if verb == "resume":
        # `r` means the one of both verbs that is possible; failed tasks resume, for that keeps their checkpoint.
        verb = "resume" if any(task.status in ADMITS["resume"] for task in tasks) else "rerun"
    able = tuple(task for task in tasks if task.status in ADMITS[verb])
    if not able:
        states = ", ".join(sorted({task.status.value for task in tasks}))
        return Refusal(f"can't {verb} what is {states}")
    left = tuple(task for task in tasks if task.status not in ADMITS[verb])
    return Plan(verb, able, left=left, are_first=are_first)

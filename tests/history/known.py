"""A history put in order: what is known of each task."""

from collections import defaultdict
from collections.abc import Iterable

from tests.history.records import Fault, History, Mark, RunRow, Said, TaskRow

FREEZES = "freeze"
"""The kind of fault in which a process stands still and nobody tells it."""

WAKING = 2.0
"""Seconds in which a process that was frozen past a lease finds out, on a busy machine."""


class Known:
    """What a history says of each task."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.rows: dict[str, TaskRow] = {row.id: row for row in history.tasks}
        self.said: dict[str, list[Said]] = defaultdict(list)
        for said in sorted(history.said, key=lambda one: one.sent):
            self.said[said.task].append(said)
        self.marks: dict[str, list[Mark]] = defaultdict(list)
        for mark in sorted(history.marks, key=lambda one: one.at):
            self.marks[mark.task].append(mark)
        self.runs: dict[str, list[RunRow]] = defaultdict(list)
        for run in sorted(history.runs, key=lambda one: one.run):
            self.runs[run.task].append(run)
        self._freezes: dict[str, list[Fault]] = defaultdict(list)
        for fault in history.faults:
            if fault.kind == FREEZES:
                self._freezes[fault.on].append(fault)

    def asked(self, task: str, *ops: str) -> list[Said]:
        """Return what was, or may have been, done to the task of these kinds, in the order in which it was sent."""
        return [said for said in self.said[task] if said.op in ops and said.may_count]

    def is_steered(self, task: str) -> bool:
        """Whether anybody did anything to it, or tried to, after it was put in."""
        return any(said.op not in {"submit", "get", "runs"} for said in self.said[task])

    def wakes(self, mark: Mark) -> bool:
        """Whether its process had just been woken: what it did then may come late."""
        return any(one.ended <= mark.at <= one.ended + WAKING for one in self._freezes[mark.worker])

    def disturbed_until(self, begin: float, patience: float) -> float:
        """Return when something that takes so long from `begin` on is over, though faults kept it from its way."""
        until = begin + patience
        for fault in sorted(self.history.faults, key=lambda one: one.began):
            if fault.began <= until:
                until = max(until, fault.ended + patience)
        return until


def writes_that_may_stand(writes: Iterable[Said], at: float | None = None) -> list[Said]:
    """Return which writes of a field may be what is read at an instant, at the end unless it is given.

    Those are all that were sent before, but those after which another one was begun and acknowledged in time.
    """
    sent = [one for one in writes if at is None or one.sent < at]
    surely = [one for one in sent if one.is_done and (at is None or (one.answered or one.sent) < at)]
    return [one for one in sent if not any(one.ends_before(later) for later in surely)]

"""What commits changed since it was last looked at: the tasks as they are now, for all views together."""

from collections.abc import Mapping
from typing import NamedTuple

from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.engine.hub import Batch
from treadle_server.operations.encode import dumps, listed_data
from treadle_server.store.read.orders import ORDERS, Rank, ranks_in

_PENDING = Status.PENDING

PATIENCE = 20
"""Rounds for which a task may be on its way to its next commit; one that failed tells nothing any more."""


class ToldTask:
    """A task as it was told or read: the writer goes on with the same object before its next commit."""

    __slots__ = ("_encoded", "is_pending", "task", "version")

    def __init__(self, task: Task) -> None:
        self.task = task
        self.version = task.version
        self.is_pending = task.status is _PENDING
        self._encoded: bytes | None = None

    @property
    def stands(self) -> bool:
        """Return whether the task is still as it was told."""
        return self.task.version == self.version

    def encoded(self) -> bytes | None:
        """Return it as `TaskItem` without a place in line, once for all who show it; None when it stands no more."""
        if self._encoded is None and self.stands:
            self._encoded = dumps(listed_data(self.task))
        return self._encoded


class Round:
    """Tasks that changed, each as its last commit has left it, in any of the orders of the list."""

    def __init__(self, tasks: Mapping[TaskId, ToldTask], gone: Mapping[TaskId, str]) -> None:
        self.tasks = tasks
        self.gone = gone
        """Those that were removed, each with its job's name."""
        self.jobs = {told.task.job_name for told in tasks.values()} | set(gone.values())
        self._by_status: dict[Status, list[ToldTask]] = {}
        for told in tasks.values():
            self._by_status.setdefault(told.task.status, []).append(told)
        self._ranked: dict[tuple[str, int], tuple[list[Rank], list[ToldTask]]] = {}

    def segment(self, order: str, number: int) -> tuple[list[Rank], list[ToldTask]]:
        """Return the tasks that stand in a segment of the order, in that order, and their ranks."""
        key = (order, number)
        if key not in self._ranked:
            rank = ranks_in(order, number)
            statuses = ORDERS[order][number].statuses
            ranked = {rank(told.task): told for status in statuses for told in self._by_status.get(status, ())}
            ranks = sorted(ranked)
            self._ranked[key] = ranks, [ranked[one] for one in ranks]
        return self._ranked[key]


class _Told(NamedTuple):
    """The tasks of one commit, and the version that each had then."""

    tasks: list[Task]
    versions: list[int]


_Noted = tuple[Task, int]
"""A task, and its version when it was told: the writer goes on with the same object."""


class ChangeCollector:
    """Gathers what commits changed until it is taken.

    In a drain a task changes three times between two rounds, and every commit is noted in the engine's own time: so
    that takes no more than a list of versions, and which change was a task's last is found once a round.
    """

    def __init__(self) -> None:
        self._told: list[_Told] = []
        self._noted: dict[TaskId, _Noted] = {}
        """What was told, by task, as far as it was looked through."""
        self._gone: dict[TaskId, str] = {}
        self._waited: dict[TaskId, tuple[_Noted, int]] = {}
        """What was left by the last round, and for how many."""

    def __bool__(self) -> bool:
        return bool(self._told or self._noted or self._gone)

    def __len__(self) -> int:
        self._look_through()
        return len(self._noted) + len(self._gone)

    def is_over(self, most: int) -> bool:
        """Return whether more than `most` tasks have changed."""
        told = sum(len(one.tasks) for one in self._told)
        return told + len(self._noted) + len(self._gone) > most and len(self) > most

    def note(self, batch: Batch) -> None:
        """Note what a commit changed; what comes late is left out."""
        changes = batch.tasks
        if batch.late:
            changes = [change for place, change in enumerate(changes) if place not in batch.late]
        if tasks := [change.task for change in changes] + batch.touched:
            self._told.append(_Told(tasks, [task.version for task in tasks]))
        self._gone.update(batch.pruned)

    def clear(self) -> None:
        """Forget everything."""
        self._told, self._noted, self._gone, self._waited = [], {}, {}, {}

    def take(self) -> Round:
        """Return what is to be shown, and forget it.

        A task that the writer has moved on is left: its commit is under way, and what it does is told next.
        """
        self._look_through()
        taken: dict[TaskId, ToldTask] = {}
        left: dict[TaskId, _Noted] = {}
        for task_id, noted in self._noted.items():
            task, version = noted
            if task.version == version:
                taken[task_id] = ToldTask(task)
            else:
                left[task_id] = noted
        self._waited = {task_id: (noted, self._rounds_of(task_id, noted) + 1) for task_id, noted in left.items()}
        self._noted = left
        gone, self._gone = self._gone, {}
        return Round(taken, gone)

    def _look_through(self) -> None:
        for tasks, versions in self._told:
            self._noted.update(zip([task.id for task in tasks], zip(tasks, versions, strict=True), strict=True))
        self._told = []

    def _rounds_of(self, task_id: TaskId, noted: _Noted) -> int:
        """Return for how many rounds it has waited since it was told so."""
        before, rounds = self._waited.get(task_id, (noted, 0))
        return rounds if before is noted else 0

    @property
    def has_lost(self) -> bool:
        """Return whether a task has waited too long for its commit: that failed, and what it is now is not known."""
        return any(rounds > PATIENCE for _, rounds in self._waited.values())


__all__ = ["ChangeCollector", "Round", "ToldTask"]

"""What commits changed since it was last looked at: the tasks as they are now, for all views together."""

from collections.abc import Mapping

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


class ChangeCollector:
    """Gathers what commits changed until it is taken."""

    def __init__(self) -> None:
        self._tasks: dict[TaskId, ToldTask] = {}
        self._gone: dict[TaskId, str] = {}
        self._waited: dict[TaskId, tuple[ToldTask, int]] = {}
        """What was left by the last round, and for how many."""

    def __len__(self) -> int:
        return len(self._tasks) + len(self._gone)

    def note(self, batch: Batch) -> None:
        """Note what a commit changed; what comes late is left out."""
        changes = batch.tasks
        if batch.late:
            changes = [change for place, change in enumerate(changes) if place not in batch.late]
        self._tasks.update([(task.id, ToldTask(task)) for task, _ in changes])
        self._tasks.update([(task.id, ToldTask(task)) for task in batch.touched])
        self._gone.update(batch.pruned)

    def clear(self) -> None:
        """Forget everything."""
        self._tasks, self._gone, self._waited = {}, {}, {}

    def take(self) -> Round:
        """Return what is to be shown, and forget it.

        A task that the writer has moved on is left: its commit is under way, and what it does is told next.
        """
        taken = {task_id: told for task_id, told in self._tasks.items() if told.task.version == told.version}
        left = self._tasks.keys() - taken.keys()
        waited: dict[TaskId, tuple[ToldTask, int]] = {}
        for task_id in left:
            told = self._tasks[task_id]
            before, rounds = self._waited.get(task_id, (told, 0))
            waited[task_id] = told, rounds + 1 if before is told else 1
        self._waited = waited
        self._tasks = {task_id: told for task_id, (told, _) in waited.items()}
        gone, self._gone = self._gone, {}
        return Round(taken, gone)

    @property
    def has_lost(self) -> bool:
        """Return whether a task has waited too long for its commit: that failed, and what it is now is not known."""
        return any(rounds > PATIENCE for _, rounds in self._waited.values())


__all__ = ["ChangeCollector", "Round", "ToldTask"]

"""Gathers the tasks that commits have changed since the last round, for all views together."""

from collections.abc import Callable, Mapping
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.engine.hub import Batch
from treadle_server.operations.encode import dumps, listed_data
from treadle_server.store.read.orders import ORDERS, Rank, ranks_in, steps_in

_PENDING = Status.PENDING
_id_of, _job_of = attrgetter("id"), attrgetter("job_name")

PATIENCE = 20
"""Rounds for which a task may be waiting for its next commit; a commit that failed reports nothing more."""


class ReportedTask:
    """A task as it was reported or read; the writer changes the same object before its next commit."""

    __slots__ = ("_encoded", "is_pending", "task", "version")

    def __init__(self, task: Task, version: int | None = None) -> None:
        """`version` is the version in which it was reported; None means its present one."""
        self.task = task
        self.version = task.version if version is None else version
        self.is_pending = task.status is _PENDING
        self._encoded: bytes | None = None

    @property
    def is_current(self) -> bool:
        """Return whether the task is still as it was reported."""
        return self.task.version == self.version

    def encoded(self) -> bytes | None:
        """Return it as `TaskItem` without its position, built once for all views; None if it has changed since."""
        if self._encoded is None and self.is_current:
            self._encoded = dumps(listed_data(self.task))
        return self._encoded


class Round:
    """Changed tasks, each as its last commit left it, in any of the list's orders."""

    def __init__(
        self, tasks: Mapping[TaskId, Task], versions: Mapping[TaskId, int], gone: Mapping[TaskId, str]
    ) -> None:
        self.tasks = tasks
        self.versions = versions
        """The version in which each task was reported."""
        self.gone = gone
        """The removed tasks, each with its job's name."""
        self.jobs = set(map(_job_of, tasks.values())) | set(gone.values())
        self._by_status: dict[Status, list[Task]] = {}
        for task in tasks.values():
            self._by_status.setdefault(task.status, []).append(task)
        self._ranked: dict[tuple[str, int], tuple[list[Task], Callable[[Task], Rank]]] = {}
        self._told: dict[TaskId, ReportedTask] = {}

    def told(self, task: Task) -> ReportedTask:
        """Return one of these tasks as it was reported: a single object for all views."""
        if (known := self._told.get(task.id)) is None:
            known = self._told[task.id] = ReportedTask(task, self.versions[task.id])
        return known

    def copy(self) -> "Round":
        """Return a copy for a view that uses it later: the writer may have moved tasks to other places meanwhile."""
        return Round(self.tasks, self.versions, self.gone)

    def segment(self, order: str, number: int) -> tuple[list[Task], Callable[[Task], Rank]]:
        """Return the tasks in a segment of the order, sorted, and the function that gives their ranks.

        In a drain some 3,000 tasks change between two rounds, and a window needs only the first of them.
        """
        key = (order, number)
        if key not in self._ranked:
            statuses = ORDERS[order][number].statuses
            tasks = list(chain.from_iterable(self._by_status.get(status, ()) for status in statuses))
            for names, ascends in steps_in(order, number):
                tasks.sort(key=attrgetter(*names), reverse=not ascends)
            self._ranked[key] = tasks, ranks_in(order, number)
        return self._ranked[key]


class _Told(NamedTuple):
    """The tasks of one commit, and the version that each had then."""

    tasks: list[Task]
    versions: list[int]


class ChangeCollector:
    """Gathers what commits changed until it is taken.

    In a drain a task changes three times between two rounds, and noting a commit delays the engine. So it only makes a
    list of versions; the last change of each task is found once a round. No object is made for a task that nobody
    shows.
    """

    def __init__(self) -> None:
        self._told: list[_Told] = []
        self._tasks: dict[TaskId, Task] = {}
        """The reported tasks that have been sorted by id."""
        self._versions: dict[TaskId, int] = {}
        """The version of each when it was last reported: the writer goes on changing the same object."""
        self._gone: dict[TaskId, str] = {}
        self._waited: dict[TaskId, tuple[int, int]] = {}
        """The tasks that the last round left: (version, number of rounds)."""

    def __bool__(self) -> bool:
        return bool(self._told or self._tasks or self._gone)

    def __len__(self) -> int:
        self._look_through()
        return len(self._tasks) + len(self._gone)

    def is_over(self, most: int) -> bool:
        """Return whether more than `most` tasks have changed."""
        told = sum(len(one.tasks) for one in self._told)
        return told + len(self._tasks) + len(self._gone) > most and len(self) > most

    def note(self, batch: Batch) -> None:
        """Note a commit's changes; changes that arrive late are left out."""
        changes = batch.tasks
        if batch.late:
            changes = [change for place, change in enumerate(changes) if place not in batch.late]
        if tasks := [change.task for change in changes] + batch.touched:
            self._told.append(_Told(tasks, [task.version for task in tasks]))
        self._gone.update(batch.pruned)

    def clear(self) -> None:
        """Forget everything."""
        self._told, self._tasks, self._versions, self._gone, self._waited = [], {}, {}, {}, {}

    def take(self) -> Round:
        """Return the changes to show, and forget them.

        A task that the writer is changing again is left for later: its commit is in progress, and will report it.
        """
        self._look_through()
        tasks, versions, gone = self._tasks, self._versions, self._gone
        left = [task.id for task in tasks.values() if task.version != versions[task.id]]
        self._waited = {task_id: (versions[task_id], self._rounds_of(task_id) + 1) for task_id in left}
        self._tasks = {task_id: tasks.pop(task_id) for task_id in left}
        self._versions = {task_id: versions.pop(task_id) for task_id in left}
        self._gone = {}
        return Round(tasks, versions, gone)

    def _look_through(self) -> None:
        for tasks, versions in self._told:
            ids = list(map(_id_of, tasks))
            self._tasks.update(zip(ids, tasks, strict=True))
            self._versions.update(zip(ids, versions, strict=True))
        self._told = []

    def _rounds_of(self, task_id: TaskId) -> int:
        """Return for how many rounds the task has waited in this version."""
        version, rounds = self._waited.get(task_id, (None, 0))
        return rounds if version == self._versions[task_id] else 0

    @property
    def has_lost(self) -> bool:
        """Return whether a task has waited too long for its commit: that failed, and what it is now is not known."""
        return any(rounds > PATIENCE for _, rounds in self._waited.values())

"""Decides which tasks a new one supersedes, where limits say so. Pure rules.

When what is in use, what waits and the new task together exceed a limit, all others that wait are cancelled; with
`replace` also the runs that were claimed first, until the new task fits beside the rest. A cancelled run counts until
its code has stopped, and the new task waits for that as for any other use.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from treadle.wire.ids import TaskId
from treadle.wire.limits import OnFull
from treadle.wire.status import Status
from treadle_server.domain.limits import Bucket, bucket_ids_of, weights_of
from treadle_server.domain.tasks import Task

SUPERSEDING: frozenset[OnFull] = frozenset({"newest", "replace"})
"""The values of `on_full` that let newer tasks supersede older ones."""


@dataclass(frozen=True, slots=True)
class Running:
    """A run that counts against a bucket."""

    task: Task
    run_id: int
    weight: int

    @property
    def is_open(self) -> bool:
        """Return whether it is still open."""
        return self.task.is_leased and self.task.run_id == self.run_id


@dataclass(slots=True)
class Rivals:
    """A bucket of such a limit, and the tasks that a new one may supersede."""

    number: int
    bucket: Bucket
    waiting: list[Task] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    """With `replace`, the runs that may have to go, in the order of their claims."""
    active: int = 0
    """With `replace`, the weight of all runs that were open."""
    known_waiting: set[TaskId] = field(default_factory=set)
    """The tasks that waited when they were read."""
    known_running: set[TaskId] = field(default_factory=set)
    """With `replace`, the tasks that ran at that time."""
    is_capped: bool = False
    """Whether there may be more tasks than were read."""
    has_grown: bool = False
    """Whether a new task was added."""

    def superseded_by(self, new: Task) -> list[Task]:
        """Return the tasks that a new one supersedes, and count the new one among those that wait."""
        others = [task for task in self.waiting if task.status is Status.PENDING]
        self.has_grown = True
        if not self.is_full([*others, new]):
            self.waiting = [*others, new]
            return []
        self.waiting = [new]
        return [*others, *self._in_the_way(self.weight_of(new))]

    def _in_the_way(self, weight: int) -> list[Task]:
        """Return the tasks whose runs must go so that this weight fits beside the rest."""
        limit = self.bucket.limit
        if limit.on_full != "replace" or limit.concurrency is None:
            return []
        excess = self.active - sum(run.weight for run in self.running if not run.is_open) + weight - limit.concurrency
        gone: list[Task] = []
        for run in self.running:
            if excess > 0 and run.is_open:
                excess -= run.weight
                gone.append(run.task)
        return gone

    def is_full(self, waiting: Sequence[Task]) -> bool:
        """Return whether these would not all fit at once beside what is in use."""
        limit = self.bucket.limit
        if limit.rate_count is not None and len(waiting) > self.bucket.tokens + 1e-9:
            return True
        total = self.bucket.used + sum(map(self.weight_of, waiting))
        return limit.concurrency is not None and total > limit.concurrency

    def weight_of(self, task: Task) -> int:
        """Return the weight that a task has in this bucket."""
        assert task.limit_key is not None
        assert task.limits is not None
        nth = [one.bucket for one in bucket_ids_of(task.limit_key)].index(self.number)
        return self.bucket.limit.counted(weights_of(task.limits)[nth])

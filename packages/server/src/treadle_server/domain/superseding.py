"""Which tasks a new one supersedes, by limits that say so: pure rules.

When a limit is full by what is used, what waits and the new task, all others that wait go; with `replace` also the runs
that were claimed first, until the new one fits beside those that are left. What has gone counts until its code has
stopped, and the new one waits for that as for anything else that is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from treadle.wire.ids import TaskId
from treadle.wire.limits import OnFull
from treadle.wire.status import Status
from treadle_server.domain.limits import Bucket, bucket_ids_of, weights_of
from treadle_server.domain.tasks import Task

SUPERSEDING: frozenset[OnFull] = frozenset({"newest", "replace"})
"""What limits say that let newer tasks supersede older ones."""


@dataclass(frozen=True, slots=True)
class Running:
    """A run that counts against a bucket."""

    task: Task
    run_id: int
    weight: int

    @property
    def is_open(self) -> bool:
        """Return whether it is open by now."""
        return self.task.is_leased and self.task.run_id == self.run_id


@dataclass(slots=True)
class Rivals:
    """A bucket of such a limit, and those whom a new task may supersede."""

    number: int
    bucket: Bucket
    waiting: list[Task] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    """With `replace` those that may have to go, the first claimed first."""
    active: int = 0
    """With `replace` the weight of all runs that were open."""
    known_waiting: set[TaskId] = field(default_factory=set)
    """Those that waited when they were looked for."""
    known_running: set[TaskId] = field(default_factory=set)
    """With `replace` those that ran."""
    is_capped: bool = False
    """Whether there may be more of them."""
    has_grown: bool = False
    """Whether something was put in."""

    def superseded_by(self, new: Task) -> list[Task]:
        """Return those that go because of a new task; it is one of those that wait from then on."""
        others = [task for task in self.waiting if task.status is Status.PENDING]
        self.has_grown = True
        if not self.is_full([*others, new]):
            self.waiting = [*others, new]
            return []
        self.waiting = [new]
        return [*others, *self._in_the_way(self.weight_of(new))]

    def _in_the_way(self, weight: int) -> list[Task]:
        """Return the tasks whose runs go so that so much fits beside what is left."""
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
        """Return whether these would not all fit at once beside what is used."""
        limit = self.bucket.limit
        if limit.rate_count is not None and len(waiting) > self.bucket.tokens + 1e-9:
            return True
        total = self.bucket.used + sum(map(self.weight_of, waiting))
        return limit.concurrency is not None and total > limit.concurrency

    def weight_of(self, task: Task) -> int:
        """Return what a task counts here."""
        assert task.limit_key is not None
        assert task.limits is not None
        nth = [one.bucket for one in bucket_ids_of(task.limit_key)].index(self.number)
        return self.bucket.limit.counted(weights_of(task.limits)[nth])

"""Who waits for tasks: workers on the socket, and claims over HTTP."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from treadle.wire.ids import TaskId, WorkerId
from treadle_server.domain.tasks import Task

RunKey = tuple[TaskId, int]


@dataclass(slots=True, eq=False)
class Seat:
    """A worker on the socket: as long as it has room, claims are delivered to it."""

    worker_id: WorkerId
    jobs: set[int]
    """Numbers of the jobs it serves."""
    pool: str | None
    concurrency: int
    min_concurrency: int
    prefetch: int
    deliver: Callable[[list[Task]], None]
    """Called after the commit; must not raise."""
    held: dict[RunKey, int] = field(default_factory=dict)
    """The weight of each run that it holds."""
    draining: bool = False
    open: bool = True

    @property
    def used(self) -> int:
        """Return the weight of what it holds."""
        return sum(self.held.values())

    @property
    def capacity(self) -> int:
        """Return the most weight that it may ever hold."""
        return self.concurrency + self.prefetch

    def room(self) -> int:
        """Return how much more weight it takes now; with `min_concurrency`, nothing until it holds less than that."""
        used = self.used
        if self.draining or not self.open or (self.min_concurrency and used >= self.min_concurrency):
            return 0
        return self.capacity - used

    def reserve(self, task: Task) -> None:
        """Note that the task's next run will be its own."""
        self.held[task.id, task.run_id + 1] = task.weight

    def release(self, key: RunKey) -> None:
        """Note that the run's code has ended."""
        self.held.pop(key, None)

    def withdraw(self, keys: list[RunKey]) -> None:
        """Forget claims that were not committed."""
        for key in keys:
            self.held.pop(key, None)


@dataclass(slots=True, eq=False)
class Waiting:
    """A claim over HTTP: answered once, with as many tasks as there are, up to `most`."""

    worker_id: WorkerId
    jobs: set[int]
    pool: str | None
    most: int
    answer: asyncio.Future[list[Task]]
    patient: bool
    """Whether it waits for tasks to come; otherwise the next batch answers it."""
    taken: int = 0

    @property
    def capacity(self) -> int:
        """Return the most weight of one task: an HTTP claim names a number of tasks, not a weight."""
        return 1_000_000

    def room(self) -> int:
        """Return whether it takes one more, as a weight."""
        return 1_000_000 if self.taken < self.most and not self.answer.done() else 0

    def reserve(self, task: Task) -> None:
        """Note that the task's next run will be its own."""
        self.taken += 1

    def withdraw(self, keys: list[RunKey]) -> None:
        """Forget claims that were not committed."""
        self.taken -= len(keys)


Demand = Seat | Waiting

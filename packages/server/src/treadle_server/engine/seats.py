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
        """Return how much more weight it asks for; with `min_concurrency`, nothing until it holds less than that."""
        return 0 if self.min_concurrency and self.used >= self.min_concurrency else self.spare()

    def spare(self) -> int:
        """Return how much more weight it can take, once it asked for any."""
        return self.capacity - self.used if self.open and not self.draining else 0

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
class Capacity:
    """What a worker takes over HTTP; shared by all claims that it has waiting."""

    concurrency: int
    min_concurrency: int
    used: int = 0
    """The weight of what it holds, as the store says when tasks are handed out, and of what it was given since."""

    def room(self) -> int:
        """Return how much more weight it asks for, as `Seat.room`."""
        return 0 if self.min_concurrency and self.used >= self.min_concurrency else self.spare()

    def spare(self) -> int:
        """Return how much more weight it can take, once it asked for any."""
        return max(0, self.concurrency - self.used)


UNLIMITED = 1_000_000
"""The room of a worker that never named its concurrency: the largest weight that a task can have."""


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
    limit: Capacity | None = None
    """None when the worker never named its concurrency."""
    draining: bool = False
    taken: int = 0

    @property
    def capacity(self) -> int:
        """Return the most weight that the worker may ever hold."""
        return UNLIMITED if self.limit is None else self.limit.concurrency

    def room(self) -> int:
        """Return how much more weight it asks for."""
        return 0 if self.limit is not None and self.limit.room() <= 0 else self.spare()

    def spare(self) -> int:
        """Return how much more weight it can take, once it asked for any."""
        if self.taken >= self.most or self.draining or self.answer.done():
            return 0
        return UNLIMITED if self.limit is None else self.limit.spare()

    def reserve(self, task: Task) -> None:
        """Note that the task's next run will be its own."""
        self.taken += 1
        if self.limit is not None:
            self.limit.used += task.weight

    def withdraw(self, keys: list[RunKey]) -> None:
        """Forget claims that were not committed."""
        self.taken -= len(keys)


Demand = Seat | Waiting

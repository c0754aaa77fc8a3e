"""Publishes committed changes to every listener in this process, in order, after the commit (G7)."""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from uuid_utils import uuid7

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import Status
from treadle_server.domain.jobs import Job, Worker
from treadle_server.domain.schedules import Schedule
from treadle_server.domain.tasks import Run, Task
from treadle_server.engine.version_order import VersionOrder


class Change(NamedTuple):
    """A task after one transition, and the status that it left; `was` is None for a new task."""

    task: Task
    was: Status | None


@dataclass(frozen=True, slots=True)
class Instructions:
    """What to tell a worker on this server's socket, because another server has changed what it holds."""

    worker_id: WorkerId
    cancel: list[tuple[TaskId, int]]
    pause: list[tuple[TaskId, int]]
    gone: list[tuple[TaskId, int]]
    has_left: bool
    """Whether it is lost or has connected to another server, so that its session here is over."""


@dataclass(slots=True)
class Batch:
    """What one commit changed, each list in the order in which it happened."""

    at: datetime
    seq: int = 0
    """The number of the batch's last event; the one before its first is `seq - size`."""
    tasks: list[Change] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    schedules: list[Schedule] = field(default_factory=list)
    """Schedules that were changed; the changes of a tick are published by its task alone."""
    has_ticks: bool = False
    """Whether a schedule made a task."""
    has_limits: bool = False
    """Whether a limit was made, changed or deleted."""
    runs: list[Run] = field(default_factory=list)
    touched: list[Task] = field(default_factory=list)
    """Tasks whose progress, logs, checkpoint or usage changed without a transition."""
    targets: set[int] = field(default_factory=set)
    """Numbers of the targets whose holders, or whose line, may have changed."""
    pruned: dict[TaskId, str] = field(default_factory=dict)
    """Ended tasks that were removed, each with its job's name. This is no transition: no metric counts it."""

    lanes: set[int] = field(default_factory=set)
    """Lanes with claimable tasks that no worker here has taken."""
    shifted: set[int] = field(default_factory=set)
    """Lanes in which limits let other tasks through than before; the tasks have not changed otherwise."""
    freed: set[WorkerId] = field(default_factory=set)
    """Workers that have more room because one of their holds ended."""
    links: set[tuple[WorkerId, int]] = field(default_factory=set)
    """New links between workers and the jobs that they serve, by the job's number."""
    is_foreign: bool = False
    """Whether another server of the same database committed it; it then holds only what somebody here wants to know."""
    is_exclusive: bool = False
    """Whether this server was the only one that wrote to the database at the time of the commit."""
    has_gap: bool = False
    """Whether more has changed than can be listed, so that observers must read everything again."""
    due_at: datetime | None = None
    """When the first task that another server has scheduled is due, or a line that waits for a limit may move on."""
    instructions: list[Instructions] = field(default_factory=list)
    late: frozenset[int] = frozenset()
    """Indexes in `tasks` of transitions that come after a later one of the same task; observers don't get them."""

    def __bool__(self) -> bool:
        others = self.touched or self.targets or self.pruned or self.freed or self.links
        return bool(self.size or others or self.has_limits or self.shifted)

    def concerns(self, job: str | None) -> bool:
        """Return whether tasks of the job changed, logged something or were removed; None: of any job."""
        if job is None:
            return bool(self.tasks or self.touched or self.pruned)
        tasks = chain((change.task for change in self.tasks), self.touched)
        return job in self.pruned.values() or any(task.job_name == job for task in tasks)

    @property
    def size(self) -> int:
        """Return how many events it has."""
        return len(self.tasks) + len(self.jobs) + len(self.workers) + len(self.schedules)


log = logging.getLogger(__name__)

Listener = Callable[[Batch], None]

HERE = "here"
"""The name under which this server's own observers ask for every transition."""


class Hub:
    """Hands each committed batch to every listener. A listener must return at once and must not raise."""

    def __init__(self) -> None:
        self.stream = str(uuid7())
        """Names this start of the server; see `begin`."""
        self.seq = 0
        self.each = False
        """Whether every transition is wanted; if not, one that is followed by another in its commit may be left out."""
        self.version_order: VersionOrder | None = None
        """Finds late transitions where several servers publish. A single server commits, and so publishes, in order."""
        self._each_for: set[str] = set()
        self._each_listeners: list[Callable[[], None]] = []
        self._listeners: list[Listener] = []

    def begin(self) -> None:
        """Give this start a new name: the process may have been forked since the hub was created."""
        self.stream = str(uuid7())

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every batch from now on; return a function that stops this."""
        self._listeners.append(listener)

        def forget() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return forget

    def want_each(self, who: str, *, wanted: bool) -> None:
        """Note whether `who` wants every transition; `on_each_changed` callbacks run when that begins or ends here."""
        before = self.wants_each_here
        (self._each_for.add if wanted else self._each_for.discard)(who)
        self.each = bool(self._each_for)
        if before != self.wants_each_here:
            for listener in self._each_listeners:
                listener()

    @property
    def wants_each_here(self) -> bool:
        """Return whether somebody on this server wants every transition."""
        return HERE in self._each_for

    def on_each_changed(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever this server starts or stops wanting every transition."""
        self._each_listeners.append(listener)

    def publish(self, batch: Batch) -> None:
        """Number the batch's events and publish it; a gap gets a number too, so that nobody resumes across it."""
        self.seq += batch.size + batch.has_gap
        batch.seq = self.seq
        if self.version_order is not None and batch.tasks:
            versions = ((task.id, task.version) for task, _ in batch.tasks)
            batch.late = self.version_order.late(versions, is_foreign=batch.is_foreign, is_exclusive=batch.is_exclusive)
        for listener in list(self._listeners):
            try:
                listener(batch)
            except Exception:
                # The commit is done: this must affect neither its answers nor the other listeners.
                log.exception("a listener failed on the events up to %d", batch.seq)

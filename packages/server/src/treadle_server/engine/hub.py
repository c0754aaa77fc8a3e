"""Where committed changes go out: to every listener in this process, in order, after the commit (G7)."""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from uuid_utils import uuid7

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import Status
from treadle_server.domain.jobs import Job, Worker
from treadle_server.domain.schedules import Schedule
from treadle_server.domain.tasks import Run, Task
from treadle_server.engine.version_order import VersionOrder


class Change(NamedTuple):
    """A task after one transition, and the status that it left; `was` is None for a new one."""

    task: Task
    was: Status | None


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a worker on this server's socket is to be told: another server has changed what it holds."""

    worker_id: WorkerId
    cancel: list[tuple[TaskId, int]]
    pause: list[tuple[TaskId, int]]
    gone: list[tuple[TaskId, int]]
    has_left: bool
    """Whether it is lost, or has opened itself at another server: its session here is over."""


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
    """Those that were changed; what a tick changes of one its task tells."""
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
    """Ended tasks that were removed, each with its job's name; no transition, so that nothing measured changes."""

    lanes: set[int] = field(default_factory=set)
    """Lanes in which something is claimable that nobody here has taken."""
    shifted: set[int] = field(default_factory=set)
    """Lanes in which limits let other tasks through than before: these have not changed otherwise."""
    freed: set[WorkerId] = field(default_factory=set)
    """Workers that have more room, because a hold of theirs ended."""
    links: set[tuple[WorkerId, int]] = field(default_factory=set)
    """Workers that serve a job from now on, each with the job's number."""
    is_foreign: bool = False
    """Whether another server of the same database committed it; then only what somebody here wants to know is in it."""
    is_exclusive: bool = False
    """Whether nobody but this server wrote to the database when it was committed."""
    has_gap: bool = False
    """Whether more has changed than can be told: everything is to be read anew."""
    due_at: datetime | None = None
    """When the first task is due that another server has scheduled, or a line may go on that waits for a limit."""
    instructions: list[Instructions] = field(default_factory=list)
    late: frozenset[int] = frozenset()
    """Places in `tasks` of transitions that are told after a later one of their task: observers are spared them."""

    def __bool__(self) -> bool:
        told = self.touched or self.targets or self.pruned or self.freed or self.links
        return bool(self.size or told or self.has_limits or self.shifted)

    @property
    def size(self) -> int:
        """Return how many events it has."""
        return len(self.tasks) + len(self.jobs) + len(self.workers) + len(self.schedules)


log = logging.getLogger(__name__)

Listener = Callable[[Batch], None]

HERE = "here"
"""Who wants every transition: observers of this server."""


class Hub:
    """Hands each committed batch to every listener. A listener must return at once and must not raise."""

    def __init__(self) -> None:
        self.stream = str(uuid7())
        """Names this start of the server; see `begin`."""
        self.seq = 0
        self.each = False
        """Whether every transition is wanted: else one that another follows in the same commit need not be told."""
        self.version_order: VersionOrder | None = None
        """Where several servers tell: which transitions come late. A single server commits, and so tells, in order."""
        self._each_for: set[str] = set()
        self._wishes: list[Callable[[], None]] = []
        self._listeners: list[Listener] = []

    def begin(self) -> None:
        """Name this start: the process may have been forked since the hub was made, and another one with it."""
        self.stream = str(uuid7())

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every batch from now on; the returned function ends that."""
        self._listeners.append(listener)

        def forget() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return forget

    def want_each(self, who: str, *, wanted: bool) -> None:
        """Note whether `who` wants to be told every transition; `on_wish` hears when that begins or ends here."""
        before = self.wants_each_here
        (self._each_for.add if wanted else self._each_for.discard)(who)
        self.each = bool(self._each_for)
        if before != self.wants_each_here:
            for wish in self._wishes:
                wish()

    @property
    def wants_each_here(self) -> bool:
        """Return whether somebody on this server wants to be told every transition."""
        return HERE in self._each_for

    def on_wish(self, wish: Callable[[], None]) -> None:
        """Call `wish` whenever somebody here begins or ends to want every transition."""
        self._wishes.append(wish)

    def publish(self, batch: Batch) -> None:
        """Number the batch's events and hand it out; a gap takes a number too, so that nobody resumes across it."""
        self.seq += batch.size + batch.has_gap
        batch.seq = self.seq
        if self.version_order is not None and batch.tasks:
            versions = ((task.id, task.version) for task, _ in batch.tasks)
            batch.late = self.version_order.late(versions, is_foreign=batch.is_foreign, is_exclusive=batch.is_exclusive)
        for listener in list(self._listeners):
            try:
                listener(batch)
            except Exception:
                # The commit is done: neither its answers nor the other listeners may suffer.
                log.exception("a listener failed on the events up to %d", batch.seq)

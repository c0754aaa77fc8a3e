"""Where committed changes go out: to every listener in this process, in order, after the commit (G7)."""

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from uuid_utils import uuid7

from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.domain.jobs import Job, Worker
from treadle_server.domain.tasks import Run, Task


class Change(NamedTuple):
    """A task after one transition, and the status that it left; `was` is None for a new one."""

    task: Task
    was: Status | None


@dataclass(slots=True)
class Batch:
    """What one commit changed, each list in the order in which it happened."""

    at: datetime
    seq: int = 0
    """The number of the batch's last event; the first has `seq - len(tasks) - len(jobs) - len(workers) + 1`."""
    tasks: list[Change] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    touched: list[Task] = field(default_factory=list)
    """Tasks whose progress, logs, checkpoint or usage changed without a transition."""
    targets: set[int] = field(default_factory=set)
    """Numbers of the targets whose holders, or whose line, may have changed."""
    pruned: dict[TaskId, str] = field(default_factory=dict)
    """Ended tasks that were removed, each with its job's name; no transition, so that nothing measured changes."""

    def __bool__(self) -> bool:
        return bool(self.tasks or self.jobs or self.workers or self.touched or self.targets or self.pruned)


log = logging.getLogger(__name__)

Listener = Callable[[Batch], None]


class Hub:
    """Hands each committed batch to every listener. A listener must return at once and must not raise."""

    def __init__(self) -> None:
        self.stream = str(uuid7())
        """Names this start of the server."""
        self.seq = 0
        self.each = False
        """Whether every transition is wanted: else one that another follows in the same commit need not be told."""
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every batch from now on; the returned function ends that."""
        self._listeners.append(listener)

        def forget() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return forget

    def publish(self, batch: Batch) -> None:
        """Number the batch's events and hand it out."""
        self.seq += len(batch.tasks) + len(batch.jobs) + len(batch.workers)
        batch.seq = self.seq
        for listener in list(self._listeners):
            try:
                listener(batch)
            except Exception:
                # The commit is done: neither its answers nor the other listeners may suffer.
                log.exception("a listener failed on the events up to %d", batch.seq)

"""What a batch of commands has changed in memory and is still to be written, by kind."""

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta

from treadle.wire.ids import WorkerId
from treadle.wire.status import Status
from treadle_server.domain.artifacts import Artifact
from treadle_server.domain.jobs import Job, Worker
from treadle_server.domain.limits import BucketId, Limit
from treadle_server.domain.schedules import Schedule
from treadle_server.domain.tasks import Hold, Run, Task
from treadle_server.store.transaction.counts import CountKey
from treadle_server.store.transaction.flush import LogLine
from treadle_server.store.transaction.prune import Pruning
from treadle_server.store.transaction.schedules import Tick


@dataclass(slots=True)
class Changes:
    """What is to be written, by kind; tasks are keyed by number."""

    before: dict[int, Task] = field(default_factory=dict)
    """Copies of the tasks that existed before the batch and that it may have changed, as they were."""
    was: dict[int, Status | None] = field(default_factory=dict)
    last_change: dict[int, int] = field(default_factory=dict)
    new_tasks: dict[int, Task] = field(default_factory=dict)
    promoted: list[tuple[Task, int]] = field(default_factory=list)
    """Tasks that are due and wait for nothing else, each with its previous version."""
    promoted_counts: Counter[CountKey] = field(default_factory=Counter)
    """How their promotion changes the counts."""
    free: AbstractSet[int] = frozenset()
    """Numbers of the tasks that were due when the batch began and that may be claimed once they are promoted."""
    queued: list[Task] = field(default_factory=list)
    """The promoted tasks that were known to be claimable: they are in their queues now."""
    new_runs: list[Run] = field(default_factory=list)
    new_jobs: list[Job] = field(default_factory=list)
    changed_jobs: dict[int, Job] = field(default_factory=dict)
    new_schemas: list[tuple[int, int, str]] = field(default_factory=list)
    """Each with its job's number, its version, and its JSON text."""
    new_workers: list[Worker] = field(default_factory=list)
    changed_workers: dict[WorkerId, Worker] = field(default_factory=dict)
    gone_workers: set[WorkerId] = field(default_factory=set)
    links: set[tuple[WorkerId, int]] = field(default_factory=set)
    unlinked: set[WorkerId] = field(default_factory=set)
    new_holds: dict[tuple[int, int], Hold] = field(default_factory=dict)
    renewed_holds: dict[tuple[int, int], Hold] = field(default_factory=dict)
    gone_holds: set[tuple[int, int]] = field(default_factory=set)
    logs: list[LogLine] = field(default_factory=list)
    orphans: set[int] = field(default_factory=set)
    new_schedules: list[Schedule] = field(default_factory=list)
    changed_schedules: dict[str, Schedule] = field(default_factory=dict)
    ticks: list[Tick] = field(default_factory=list)
    rescheduled: set[str] = field(default_factory=set)
    """Schedules whose next tick is the first after now, even if it already made a task while the clock was ahead."""
    freed_targets: set[int] = field(default_factory=set)
    limits: dict[int, Limit] = field(default_factory=dict)
    """Limits that were created or changed."""
    gone_limits: set[int] = field(default_factory=set)
    idle_buckets: set[BucketId] = field(default_factory=set)
    """Buckets whose rows are deleted if they are full."""
    new_artifacts: list[Artifact] = field(default_factory=list)
    changed_artifacts: list[Artifact] = field(default_factory=list)
    gone_artifacts: set[str] = field(default_factory=set)
    prunings: list[Pruning] = field(default_factory=list)
    restamped: list[tuple[Sequence[int], timedelta]] = field(default_factory=list)
    """Tasks whose leases get their full length again, and by how much the clock has jumped."""

"""What the commands of a batch need to have read before they are applied."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.names import JobName
from treadle_server.domain.tasks import Task
from treadle_server.engine.step_book import StepReads
from treadle_server.store.transaction.lock_order import Place
from treadle_server.store.transaction.prune import Pruning

MOST_WORKERS = 200
"""How many silent or present workers are read at once: 10,000 that were lost together held the writer for 0.4 s."""

NOBODY = WorkerId("00000000-0000-0000-0000-000000000000")
"""Before every worker."""


@dataclass(slots=True)
class ReadSet:
    """What the commands of a batch need to have read before they are applied."""

    tasks: set[TaskId] = field(default_factory=set)
    workers: set[WorkerId] = field(default_factory=set)
    claim_keys: set[tuple[WorkerId, str]] = field(default_factory=set)
    """Idempotency keys of workers' claims; the claims are wanted with their tasks."""
    tasks_of: set[WorkerId] = field(default_factory=set)
    """Workers whose open runs are wanted."""
    holds_of: set[WorkerId] = field(default_factory=set)
    job_names: set[JobName] = field(default_factory=set)
    job_nums: set[int] = field(default_factory=set)
    jobs_change: bool = False
    new_tasks: list[tuple[JobName, str, str | None]] = field(default_factory=list)
    """For each new task: its job, the room it is submitted from, and the pool that the call names."""
    named: dict[TaskId, tuple[JobName, str]] = field(default_factory=dict)
    """The job and room of each task that is submitted with an id. Other commands' needs concerning such a task are
    found by these, since it does not exist yet."""
    submits: list[tuple[JobName, str, list[dict[str, Any]] | None, str]] = field(default_factory=list)
    """For each submitted task: its job, its room, the limits that the call names, and the payload."""
    targets: set[tuple[str, str]] = field(default_factory=set)
    unique_keys: set[tuple[JobName, str]] = field(default_factory=set)
    runs: set[tuple[TaskId, int]] = field(default_factory=set)
    owners_of: set[TaskId] = field(default_factory=set)
    """Tasks whose worker is wanted too."""
    past_owners_of: set[TaskId] = field(default_factory=set)
    """Tasks for which the owners of the workers of earlier runs are wanted."""
    jobs_of: set[TaskId] = field(default_factory=set)
    """Tasks whose job is wanted too, and the task that holds their unique key now."""
    target_edits: set[tuple[TaskId, str]] = field(default_factory=set)
    unique_edits: set[tuple[TaskId, str]] = field(default_factory=set)
    """Tasks that are to get a unique key, each with the key; the task that holds it is wanted."""
    pool_edits: set[tuple[TaskId, str | None]] = field(default_factory=set)
    """Tasks that are moved to a pool, and so to another lane. Their jobs must be declared too."""
    found: dict[str, int] = field(default_factory=dict)
    """Finders of `load.tasks_found`, each with how many tasks are wanted."""
    due: tuple[int, int] | None = None
    """How many due tasks are wanted: by a server that is the only writer, and by one of several."""
    due_until: datetime | None = None
    """The instant up to which due tasks are to be read ahead."""
    stamped_at: datetime | None = None
    """When the leases were last restamped: the time limits of older runs count from then."""
    grace: timedelta = timedelta(0)
    """By how much a run must be past its timeout to be found."""
    stale: timedelta | None = None
    """How long a worker may be silent; up to `MOST_WORKERS` silent for longer are wanted with what they hold."""
    present_after: WorkerId | None = None
    """Behind which worker the next `MOST_WORKERS` that are not lost are wanted; behind `NOBODY` also all holds."""
    schedules: set[tuple[str, str]] = field(default_factory=set)
    """Schedules by room and name."""
    limits: set[tuple[str, str]] = field(default_factory=set)
    """Limits by room and name, in addition to those that the jobs of new and edited tasks name."""
    limits_change: bool = False
    """Whether these limits are to be changed, so that it must be known whether anything names them."""
    limit_edits: set[TaskId] = field(default_factory=set)
    """Tasks whose limits are to be determined again."""
    limit_names: set[tuple[TaskId, str]] = field(default_factory=set)
    """Limits that tasks are to name from now on; they are looked up in the task's room."""
    due_limits: bool = False
    """Whether the buckets are wanted that have tasks in line and a token by now."""
    due_schedules: int = 0
    """How many due schedules are wanted."""
    ended_holds: bool = False
    new_jobs: int = 0
    artifacts: set[tuple[TaskId, int, str]] = field(default_factory=set)
    """Artifacts by task, run and name; the worker of the run is wanted too."""
    dead_artifacts: tuple[int, timedelta] | None = None
    """How many dead artifacts are wanted at most, and how long after its announcement an unfinished upload is dead."""
    prunings: list[Pruning] = field(default_factory=list)
    """Steps of a removal, each of which is to find the tasks that may go."""
    steps: StepReads = field(default_factory=StepReads)
    needed: set[TaskId] = field(default_factory=set)
    """Tasks that new ones are to wait for."""
    edges_of: set[TaskId] = field(default_factory=set)
    """Tasks for which the status of their dependencies is wanted."""
    flows: set[str] = field(default_factory=set)
    tellings: int = 0
    """How many tasks are wanted whose waiters are still to be notified, and about how many waiters."""

    def room_of(self, task_id: TaskId, found: Mapping[TaskId, Place | Task]) -> str | None:
        """Return the room of a task that was found or is submitted in this batch, or None if there is no such task."""
        if (one := found.get(task_id)) is not None:
            return one.room
        return self.named[task_id][1] if task_id in self.named else None

    def worker(self, worker_id: WorkerId) -> None:
        """Want a worker with its open runs and its holds."""
        self.workers.add(worker_id)
        self.tasks_of.add(worker_id)
        self.holds_of.add(worker_id)

    def report(self, task_id: TaskId, run_id: int | None) -> None:
        """Want what a report is checked against: the task with its worker, and the run's record if it has ended."""
        self.tasks.add(task_id)
        self.owners_of.add(task_id)
        if run_id is not None:
            self.runs.add((task_id, run_id))

"""What the commands of a batch want read before they are applied."""

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


@dataclass(slots=True)
class ReadSet:
    """What the commands of a batch want read before they are applied."""

    tasks: set[TaskId] = field(default_factory=set)
    workers: set[WorkerId] = field(default_factory=set)
    claim_keys: set[tuple[WorkerId, str]] = field(default_factory=set)
    """Keys of workers, whose claims are wanted with their tasks."""
    tasks_of: set[WorkerId] = field(default_factory=set)
    """Workers whose open runs are wanted."""
    holds_of: set[WorkerId] = field(default_factory=set)
    job_names: set[JobName] = field(default_factory=set)
    job_nums: set[int] = field(default_factory=set)
    jobs_change: bool = False
    new_tasks: list[tuple[JobName, str, str | None]] = field(default_factory=list)
    """For each new task: its job, the room it is submitted from, and the pool that the call names."""
    named: dict[TaskId, tuple[JobName, str]] = field(default_factory=dict)
    """Of those that are submitted under an id of their own: the job and the room. What other commands want of such a
    task is found by these, for it is not there yet."""
    submits: list[tuple[JobName, str, list[dict[str, Any]] | None, str]] = field(default_factory=list)
    """Of those that are submitted: the job, the room, the limits that the call names, and the payload."""
    targets: set[tuple[str, str]] = field(default_factory=set)
    unique_keys: set[tuple[JobName, str]] = field(default_factory=set)
    runs: set[tuple[TaskId, int]] = field(default_factory=set)
    owners_of: set[TaskId] = field(default_factory=set)
    """Tasks whose worker is wanted too."""
    past_owners_of: set[TaskId] = field(default_factory=set)
    """Tasks of which it is wanted whose workers had an earlier run."""
    jobs_of: set[TaskId] = field(default_factory=set)
    """Tasks whose job is wanted too, and who holds their unique key now."""
    target_edits: set[tuple[TaskId, str]] = field(default_factory=set)
    unique_edits: set[tuple[TaskId, str]] = field(default_factory=set)
    """Tasks that are to have a unique key, and it: who holds it is wanted."""
    pool_edits: set[tuple[TaskId, str | None]] = field(default_factory=set)
    """Tasks that are moved to a pool, and so to another lane. Their jobs must be asked for."""
    found: dict[str, int] = field(default_factory=dict)
    """Finders of `load.tasks_found`, and how many tasks are wanted of each."""
    due: tuple[int, int] | None = None
    """How many tasks are wanted whose time has come: by who alone writes, and by one of several servers."""
    due_until: datetime | None = None
    """Up to when what is due is to be read ahead."""
    stamped_at: datetime | None = None
    """When the leases were last stamped anew: the limits of older runs count from then."""
    grace: timedelta = timedelta(0)
    """By how much a run must be past its timeout to be found."""
    stale: timedelta | None = None
    """How long a worker may be silent; those that were longer are wanted with what they hold."""
    all_present: bool = False
    """Whether all workers that are not lost are wanted, and all holds."""
    schedules: set[tuple[str, str]] = field(default_factory=set)
    """Schedules by room and name."""
    limits: set[tuple[str, str]] = field(default_factory=set)
    """Limits by room and name, beside those that jobs name whose tasks are new or edited."""
    limits_change: bool = False
    """Whether these limits are to be changed, and who names them is wanted."""
    limit_edits: set[TaskId] = field(default_factory=set)
    """Tasks whose limits are to be told anew."""
    limit_names: set[tuple[TaskId, str]] = field(default_factory=set)
    """Limits that tasks are to name from now on: they are looked up in the task's room."""
    due_limits: bool = False
    """Whether the buckets are wanted that lines wait for and that have a token by now."""
    due_schedules: int = 0
    """How many schedules are wanted whose tick has come."""
    ended_holds: bool = False
    new_jobs: int = 0
    artifacts: set[tuple[TaskId, int, str]] = field(default_factory=set)
    """Artifacts by task, run and name; wanted with who had the run."""
    dead_artifacts: tuple[int, timedelta] | None = None
    """How many artifacts that expired, or were announced so long ago and never stored, are wanted at most."""
    prunings: list[Pruning] = field(default_factory=list)
    """Steps of a removal, which are to find what may go."""
    steps: StepReads = field(default_factory=StepReads)
    needed: set[TaskId] = field(default_factory=set)
    """Tasks that new ones are to wait for."""
    stands_of: set[TaskId] = field(default_factory=set)
    """Tasks of which it is wanted where those stand that they wait for."""
    flows: set[str] = field(default_factory=set)
    tellings: int = 0
    """How many tasks are wanted of which others are to be told where they are, and about how many of these others."""

    def room_of(self, task_id: TaskId, found: Mapping[TaskId, Place | Task]) -> str | None:
        """Return the room of a task that was found or is submitted by the batch; None: there is none."""
        if (one := found.get(task_id)) is not None:
            return one.room
        return self.named[task_id][1] if task_id in self.named else None

    def worker(self, worker_id: WorkerId) -> None:
        """Want a worker with its open runs, and the holds of those that are over."""
        self.workers.add(worker_id)
        self.tasks_of.add(worker_id)
        self.holds_of.add(worker_id)

    def report(self, task_id: TaskId, run_id: int | None) -> None:
        """Want what a report is held against: the task with its worker, and the run's record if that is over."""
        self.tasks.add(task_id)
        self.owners_of.add(task_id)
        if run_id is not None:
            self.runs.add((task_id, run_id))

"""What the reference model knows of: tasks, their runs, holds, workers and jobs, as plain as they can be."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from treadle.wire.status import LEASED, OPEN, Outcome, Reason, Status, WorkerState


class Refused(Exception):
    """The model refuses: the status and the problem's name that HTTP answers with. Nothing was changed."""

    def __init__(self, status: int, name: str) -> None:
        super().__init__(f"{status} {name}")
        self.status = status
        self.name = name


TRANSITION = Refused(409, "invalid-task-transition")
STALE = Refused(409, "stale-run")
CONFLICT = Refused(409, "task-conflict")
UNAUTHORIZED = Refused(401, "unauthorized")
FORBIDDEN = Refused(403, "forbidden")
NO_TASK = Refused(404, "task-not-found")
NO_WORKER = Refused(404, "worker-not-found")
NO_JOB = Refused(404, "job-not-found")
NO_SCHEDULE = Refused(404, "schedule-not-found")
NO_LIMIT = Refused(404, "limit-not-found")
LIMIT_IN_USE = Refused(409, "limit-in-use")
LIMIT_FULL = Refused(429, "limit-full")
INVALID = Refused(422, "validation-error")
CIRCLE = Refused(422, "dependency-cycle")


@dataclass(frozen=True)
class User:
    """Who asks: a superuser or a plain user, or, with a run, its temporary credential."""

    name: str
    superuser: bool = False
    run: tuple[str, int] | None = None


ROOT = User("admin", superuser=True)

DEFAULTS: dict[str, Any] = {
    "priority": 0,
    "max_retries": 0,
    "max_requeues": 0,
    "retry_base": 5.0,
    "retry_multiplier": 2.0,
    "timeout": None,
    "lease_seconds": 60.0,
    "heartbeat_increment": None,
    "start_timeout": 60.0,
    "on_failure": "hold",
    "weight": 1,
    "budget": None,
    "pool": None,
}
"""What holds for a task of which neither the call nor the job says anything."""


@dataclass
class Job:
    """A named function, and the defaults of its tasks."""

    room: str
    name: str
    defaults: dict[str, Any] = field(default_factory=dict)
    retain: bool = True
    fair: bool = False
    paused: bool = False
    deleted: bool = False
    limits: list[dict[str, Any]] = field(default_factory=list)
    """The limits of its room that its tasks count against; a key that begins with `/` points into the payload."""


@dataclass
class Worker:
    """A process that claims and runs tasks; `concurrency` None: it never said, and gets what it asks for."""

    id: str
    owner: str
    created_at: datetime
    last_heartbeat: datetime
    concurrency: int | None = None
    min_concurrency: int = 0
    pool: str | None = None
    state: WorkerState = WorkerState.ONLINE
    jobs: set[str] = field(default_factory=set)
    run_lost_at: datetime | None = None


@dataclass
class Task:
    """A task, under the names that it has on the wire, and what is not shown of it."""

    id: str
    seq: int
    job_name: str
    room_id: str
    submitter: str
    payload: Any
    priority: int
    scheduled_at: datetime
    created_at: datetime
    max_retries: int
    max_requeues: int
    retry_base: float
    retry_multiplier: float
    timeout: float | None
    lease_seconds: float
    heartbeat_increment: float
    start_timeout: float
    on_failure: str
    weight: int
    budget: float | None
    pool: str | None
    content: Any
    """All that the submit said but the id: what the same id must come with again (G6)."""
    target: str | None = None
    deadline: datetime | None = None
    tags: dict[str, str] | None = None
    unique_key: str | None = None
    status: Status = Status.PENDING
    version: int = 1
    run_id: int | None = None
    worker_id: str | None = None
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    taken_until: datetime | None = None
    next_retry_at: datetime | None = None
    retry_count: int = 0
    requeue_count: int = 0
    cancel_requested: bool = False
    settled: bool = False
    usage: float | None = None
    usage_before: float | None = None
    """What the runs that are over have used; `usage` is the sum over all."""
    result: Any = None
    error: str | None = None
    reason: Reason | None = None
    checkpoint: Any = None
    progress: Any = None
    goes_first: bool = False
    """Whether it is the first of its target's line, whatever the priorities."""
    unfenced: bool = False
    """Whether its run was started without a run's number: it can't be told from its successor."""
    updated_at: datetime | None = None
    limits: list[dict[str, Any]] | None = None
    """The limits of its room that it names itself, each with its key and weight."""
    counts: "dict[Key, int]" = field(default_factory=dict)
    """The keys that it counts against, its job's and its own, each with its weight there."""
    schedule: tuple[str, str] | None = None
    """The room and the name of the schedule that made it."""
    kept: "list[Step]" = field(default_factory=list)
    messages: "list[Message]" = field(default_factory=list)
    steps: int = 0
    """How many steps it keeps."""
    needs: "list[str]" = field(default_factory=list)
    """The tasks that it waits for, each once."""
    on_dependency_failure: str | None = None
    waits_for: int | None = None
    """How many of them have not ended as it needs them, as far as it was told."""

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def is_leased(self) -> bool:
        return self.status in LEASED

    @property
    def place(self) -> tuple[int, datetime, int]:
        """What the queue is in the order of."""
        return (-self.priority, self.scheduled_at, self.seq)


@dataclass
class Step:
    """A step that a task keeps, under the names that it has on the wire."""

    step: str
    occurrence: int
    kind: str
    function: str | None
    run_id: int
    result: Any
    at: datetime
    seconds: float | None = None
    until: datetime | None = None
    received_at: datetime | None = None

    @property
    def key(self) -> tuple[str, int]:
        return (self.step, self.occurrence)


@dataclass
class Message:
    """A message for a task; `by` is the number of the step that has received it."""

    name: str
    id: str
    data: Any
    sender: str
    sent_at: datetime
    by: int | None = None


@dataclass(frozen=True)
class Run:
    """A resolved attempt at a task; it never changes."""

    task_id: str
    run_id: int
    status: Outcome
    reason: Reason | None
    error: str | None
    worker_id: str | None
    usage: float | None
    claimed_at: datetime
    started_at: datetime | None
    ended_at: datetime
    said: Any = None
    """The report that ended it, which may come again."""


@dataclass(frozen=True)
class Hold:
    """What a run keeps that is over, until its code has stopped or its lease ends."""

    task_id: str
    run_id: int
    worker_id: str
    target: tuple[str, str] | None
    weight: int
    until: datetime
    lease_seconds: float
    slot_only: bool = False
    """Whether it keeps its worker's slot alone, and not the next run of its task."""


Key = tuple[str, str, str | None]
"""A key of a limit, which has the limit for itself: the limit's room, its name, and the key."""


@dataclass(frozen=True)
class Rate:
    """How many tokens fill in how many seconds, and how many there are at most."""

    count: int
    seconds: float
    burst: int


@dataclass
class Limit:
    """How much weight of tasks runs at once that count against it, how many begin, or both, for each key by itself."""

    room: str
    name: str
    concurrency: int | None
    rate: Rate | None
    on_full: str
    version: int = 1


@dataclass
class Schedule:
    """What puts a task in, again and again; a name that was deleted keeps its version."""

    room: str
    name: str
    job_name: str
    payload: Any
    options: dict[str, Any]
    cron: str | None
    interval: float | None
    missed: str
    owner: str
    created_at: datetime
    next_at: datetime
    paused: bool = False
    deleted: bool = False
    version: int = 1
    last_at: datetime | None = None
    last_task_id: str | None = None
    skipped_at: datetime | None = None
    skipped_for: str | None = None

"""Jobs, the lanes of their queues, and workers, as the rules see them."""

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Literal

from treadle.wire.ids import JobId, WorkerId
from treadle.wire.names import INTERNAL, JobName
from treadle.wire.status import WorkerState

OnRestart = Literal["keep", "requeue", "backoff"]
"""What becomes of a run of an internal executor that was lost with its process."""

MOST_TEXT = 32 * 1024 * 1024
"""Characters of the jobs that a part of the server remembers, their schemas above all: one may have millions."""


@dataclass(slots=True)
class Job:
    """A registered job. `schema` and `defaults` are JSON text."""

    num: int
    id: JobId
    room: str
    category: str
    name: str
    schema: str
    schema_version: int
    defaults: str
    created_at: datetime
    retain: bool = False
    fair: str | None = None
    paused: bool = False
    deleted_at: datetime | None = None
    version: int = 1
    origin: str | None = None
    """Which function it is, `module:qualname`, as far as was told."""
    encrypted: bool = False
    """Whether the payloads of new tasks are sealed by their submitters."""
    owner: str | None = None
    """Who registered it, or revived it; None: it is older than that was kept, and its workers are of several users."""
    full_name: str = field(init=False)
    """`room:category:name`"""

    def __post_init__(self) -> None:
        self.full_name = str(JobName(self.room, self.category, self.name))

    @property
    def size(self) -> int:
        """Return how many characters it keeps in memory, but for some hundred."""
        return len(self.schema) + len(self.defaults)

    @property
    def is_internal(self) -> bool:
        """Return whether the server's own executors run it."""
        return self.room == INTERNAL

    def lane_key(self, room: str, pool: str | None) -> tuple[int, str, str]:
        """Return the line in which a task from `room` for `pool` stands."""
        return (self.num, room if self.fair == "room" else "", pool or "")


JOB_FIELDS = tuple(f.name for f in fields(Job) if f.init)


@dataclass(frozen=True, slots=True)
class Lane:
    """A line of pending tasks: those of a job, apart by pool and, in a fair job, by room."""

    id: int
    job_num: int
    room: str
    pool: str

    @property
    def key(self) -> tuple[int, str, str]:
        """Return what makes the lane unique."""
        return (self.job_num, self.room, self.pool)


NO_POOL = "-"
"""What stands in a scope for a worker without a pool, group or name."""


@dataclass(slots=True)
class Worker:
    """A process that claims and runs tasks."""

    id: WorkerId
    owner: str
    created_at: datetime
    last_heartbeat: datetime
    name: str | None = None
    group: str | None = None
    pool: str | None = None
    version: str | None = None
    concurrency: int = 1
    min_concurrency: int = 0
    is_limited: bool = False
    """Whether it named its concurrency. An older client over HTTP, which did not, gets as many tasks as it asks for."""
    state: WorkerState = WorkerState.ONLINE
    lost_at: datetime | None = None
    home: str | None = None
    """The start of the server on whose socket it opened itself last; None over HTTP."""
    home_at: datetime | None = None
    """When that was."""
    run_lost_at: datetime | None = None
    """When a run of its was last taken from it, for it had not been heard of; None since a heartbeat came."""
    jobs: set[int] = field(default_factory=set)
    """The numbers of the jobs it serves; kept in a table of links."""

    @property
    def owes_for_lost(self) -> bool:
        """Return whether a run of its was lost since its last heartbeat: then it is expected as if it still had it."""
        return self.run_lost_at is not None and self.run_lost_at > self.last_heartbeat


WORKER_FIELDS = tuple(f.name for f in fields(Worker) if f.name != "jobs")

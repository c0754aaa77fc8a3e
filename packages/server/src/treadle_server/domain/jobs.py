"""Jobs, the lanes of their queues, and workers."""

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Literal

from treadle.wire.ids import JobId, WorkerId
from treadle.wire.names import INTERNAL, JobName
from treadle.wire.status import WorkerState

OnRestart = Literal["keep", "requeue", "backoff"]
"""What happens to a run of an internal executor that was lost with its process."""

MOST_TEXT = 32 * 1024 * 1024
"""How many characters of jobs a part of the server remembers, mostly schemas: one may have millions."""


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
    """The function that it is, as `module:qualname`; None if that was not given."""
    encrypted: bool = False
    """Whether the payloads of new tasks are sealed by their submitters."""
    owner: str | None = None
    """The user that registered or revived it; None if that was before owners were kept and several users serve it."""
    full_name: str = field(init=False)
    """`room:category:name`"""

    def __post_init__(self) -> None:
        self.full_name = str(JobName(self.room, self.category, self.name))

    @property
    def size(self) -> int:
        """Return how many characters it keeps in memory, give or take some hundred."""
        return len(self.schema) + len(self.defaults)

    @property
    def is_internal(self) -> bool:
        """Return whether the server's own executors run it."""
        return self.room == INTERNAL

    def lane_key(self, room: str, pool: str | None) -> tuple[int, str, str]:
        """Return the key of the lane for a task from `room` for `pool`."""
        return (self.num, room if self.fair == "room" else "", pool or "")


JOB_FIELDS = tuple(f.name for f in fields(Job) if f.init)


@dataclass(frozen=True, slots=True)
class Lane:
    """A line of pending tasks: those of a job for one pool and, if the job is fair, from one room."""

    id: int
    job_num: int
    room: str
    pool: str

    @property
    def key(self) -> tuple[int, str, str]:
        """Return what makes the lane unique."""
        return (self.job_num, self.room, self.pool)


NO_POOL = "-"
"""What a scope says for a worker without a pool, group or name."""


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
    """Whether it gave its concurrency. An older HTTP client, which does not, gets as many tasks as it asks for."""
    state: WorkerState = WorkerState.ONLINE
    lost_at: datetime | None = None
    home: str | None = None
    """The start of the server to whose socket it last connected; None over HTTP."""
    home_at: datetime | None = None
    """When it connected there."""
    run_lost_at: datetime | None = None
    """When it last lost a run because it was not heard from; None once a heartbeat has come."""
    jobs: set[int] = field(default_factory=set)
    """The numbers of the jobs that it serves; kept in a table of links."""

    @property
    def owes_for_lost(self) -> bool:
        """Return whether it lost a run since its last heartbeat; it must then send heartbeats as if it still had it."""
        return self.run_lost_at is not None and self.run_lost_at > self.last_heartbeat


WORKER_FIELDS = tuple(f.name for f in fields(Worker) if f.name != "jobs")

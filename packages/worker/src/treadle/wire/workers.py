"""Workers: registration, heartbeats, and what a heartbeat is answered."""

from typing import Annotated

from pydantic import Field

from treadle.wire.fields import (
    MOST_OF_REQUEST,
    MOST_WEIGHT,
    Amount,
    Flag,
    Instant,
    Model,
    Request,
    RunNumber,
    Text,
    Weight,
)
from treadle.wire.ids import Uuid
from treadle.wire.status import WorkerState


class WorkerRegister(Request):
    """A new worker: `POST /v1/workers`; every field may be left out."""

    id: Uuid | None = None
    """On the session socket: the id of a worker that comes back."""
    name: Text | None = None
    group: Text | None = None
    pool: Text | None = None
    concurrency: Weight | None = None
    min_concurrency: Annotated[int, Field(strict=True, ge=0, le=MOST_WEIGHT)] | None = None
    version: Text | None = None


class RunRef(Request):
    """One run of one task: the fencing token."""

    task_id: Uuid
    run_id: RunNumber


class Renewal(RunRef):
    """A run whose lease is renewed, with what it has used so far."""

    usage: Amount | None = None


class Heartbeat(Request):
    """A worker's heartbeat. An empty body renews every lease of the worker."""

    tasks: list[Renewal] | None = Field(default=None, max_length=MOST_OF_REQUEST)
    stopped: list[RunRef] | None = Field(default=None, max_length=MOST_OF_REQUEST)
    draining: Flag | None = None


class TakenUntil(Model):
    """Until when a run is its worker's: the committed instant, and the seconds left when it was answered."""

    task_id: str
    run_id: int
    taken_until: Instant
    seconds_left: float
    pause: bool = False
    """Of a reclaim: whether the run is to stop with a checkpoint and report `paused`."""
    credentials: str | None = Field(default=None, repr=False)
    """Of a reclaim: a fresh temporary credential for the run."""


class RunName(Model):
    """A run, named in an answer."""

    task_id: str
    run_id: int


BUSY_BEAT_SECONDS = 2.0
"""How often a worker beats that runs something."""

IDLE_BEAT_SECONDS = 15.0
"""How often a worker beats that runs nothing."""

BEATS_UNTIL_LOST = 3
"""How many heartbeats of its own fit at least into the time after which a worker is lost."""


def beat_every(lost_after: float, *, is_busy: bool) -> float:
    """Return how many seconds apart the heartbeats of a worker are expected that is lost after `lost_after` seconds."""
    return min(BUSY_BEAT_SECONDS if is_busy else IDLE_BEAT_SECONDS, lost_after / BEATS_UNTIL_LOST)


class HeldRun(RunName):
    """A run that a worker holds, as the server shows it."""

    job_name: str | None = None
    """In answers to a heartbeat it is left out, like `since`."""
    since: Instant | None = None
    """When it started, or was claimed if it has not."""


class WorkerItem(Model):
    """A worker as the server shows it."""

    id: str
    name: str | None = None
    group: str | None = None
    pool: str | None = None
    version: str | None = None
    state: WorkerState = WorkerState.ONLINE
    concurrency: int = 1
    min_concurrency: int = 0
    last_heartbeat: Instant
    heartbeat_age: float = 0.0
    """Seconds since the last heartbeat."""
    beat_seconds: float = IDLE_BEAT_SECONDS
    """How often it is expected to beat: 2 with a run, and after it lost one until it has beaten; less often without."""
    idle_beat_seconds: float = IDLE_BEAT_SECONDS
    """How often it is to beat while it runs nothing: 15, or a third of `lost_after_seconds`, whichever is less."""
    lost_after_seconds: float = 60.0
    """Without a heartbeat for so long it is lost."""
    away_since: Instant | None = None
    """When its socket broke, at whichever server, of one that is not back; null while it is there, or over HTTP."""
    created_at: Instant
    jobs: list[str] = Field(default_factory=list)
    job_count: int = 0
    running: list[HeldRun] = Field(default_factory=list)
    """What it holds: the 100 runs that came first, of `running_count`."""
    running_count: int = 0
    used: int = 0
    """The weight of what it holds."""
    owner: str | None = None


class HeartbeatAnswer(WorkerItem):
    """What the worker must do now. Of what it holds, `running` and `used` are what the beat has renewed."""

    cancel: list[RunName] = Field(default_factory=list)
    """Runs whose task was cancelled or taken away while the code still runs: stop it."""
    pause: list[RunName] = Field(default_factory=list)
    gone: list[RunName] = Field(default_factory=list)
    """Runs that are no longer this worker's."""
    taken_until: list[TakenUntil] = Field(default_factory=list)
    """Leases, and holds of runs that are over while their code still runs."""

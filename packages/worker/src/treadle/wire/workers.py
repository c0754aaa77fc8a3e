"""Workers: registration, heartbeats, and the answers to heartbeats."""

from typing import Annotated

from pydantic import Field

from treadle.wire.fields import (
    MOST_OF_REQUEST,
    MOST_WEIGHT,
    Amount,
    Flag,
    Instant,
    Model,
    Period,
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
    """On the session socket: the id of a worker that reconnects."""
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
    """How long a run belongs to its worker: the committed instant, and the seconds left at the time of the answer."""

    task_id: str
    run_id: int
    taken_until: Instant
    seconds_left: float
    pause: bool = False
    """For a reclaim: whether the run must stop with a checkpoint and report `paused`."""
    credentials: str | None = Field(default=None, repr=False)
    """For a reclaim: a new temporary credential for the run."""


class RunName(Model):
    """A reference to a run, in an answer."""

    task_id: str
    run_id: int


BUSY_BEAT_SECONDS = 2.0
"""Seconds between the heartbeats of a worker that is running something."""

IDLE_BEAT_SECONDS = 15.0
"""Seconds between the heartbeats of an idle worker."""

BEATS_UNTIL_LOST = 3
"""The minimum number of heartbeats within the time after which a silent worker is lost."""


def beat_every(lost_after: float, *, is_busy: bool) -> float:
    """Return the expected seconds between heartbeats of a worker that is lost after `lost_after` seconds."""
    return min(BUSY_BEAT_SECONDS if is_busy else IDLE_BEAT_SECONDS, lost_after / BEATS_UNTIL_LOST)


class HeldRun(RunName):
    """A run that a worker holds, as the server shows it."""

    job_name: str | None = None
    """Left out of answers to a heartbeat, like `since`."""
    since: Instant | None = None
    """When the run started, or was claimed if it has not started."""


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
    beat_seconds: Period = IDLE_BEAT_SECONDS
    """Expected seconds between heartbeats: 2 while it holds a run, and after it lost one until its next heartbeat; more
    while it is idle."""
    idle_beat_seconds: Period = IDLE_BEAT_SECONDS
    """Seconds between heartbeats while it is idle: 15, or a third of `lost_after_seconds`, whichever is less."""
    lost_after_seconds: float = 60.0
    """Seconds without a heartbeat after which the worker is lost."""
    away_since: Instant | None = None
    """When its socket broke, on any server, if it has not reconnected; null while it is connected, or uses HTTP."""
    created_at: Instant
    jobs: list[str] = Field(default_factory=list)
    job_count: int = 0
    running: list[HeldRun] = Field(default_factory=list)
    """The runs it holds: the first 100 of `running_count`."""
    running_count: int = 0
    used: int = 0
    """The total weight of the runs it holds."""
    owner: str | None = None


class HeartbeatAnswer(WorkerItem):
    """What the worker must do now. `running` and `used` cover only the runs that the heartbeat renewed."""

    cancel: list[RunName] = Field(default_factory=list)
    """Runs whose task was cancelled or taken away while the code still runs: stop the code."""
    pause: list[RunName] = Field(default_factory=list)
    gone: list[RunName] = Field(default_factory=list)
    """Runs that no longer belong to this worker."""
    taken_until: list[TakenUntil] = Field(default_factory=list)
    """Leases, and holds of runs that have ended while their code still runs."""

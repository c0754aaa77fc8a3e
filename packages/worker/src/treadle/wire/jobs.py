"""Jobs and their queues: registered, steered, and shown with what waits and runs."""

from typing import Literal

from pydantic import Field, model_validator

from treadle.wire.fields import Flag, GivenObject, Instant, JsonObject, Model, Origin, Period, Request, Text
from treadle.wire.ids import Uuid
from treadle.wire.limits import MOST_NAMED, LimitOfJob
from treadle.wire.options import TaskOptions

Fair = Literal["room"]


class JobRegister(TaskOptions):
    """Registers a job, with the defaults of its tasks: `PUT /v1/rooms/{room}/jobs`."""

    category: Text
    name: Text
    schema_: GivenObject = Field(default_factory=dict, alias="schema")
    worker_id: Uuid | None = None
    retain: Flag = False
    replace: Flag = False
    """Whether a different schema replaces the registered one; existing tasks keep theirs."""
    widen: Flag = False
    """Whether the schema replaces the registered one if it only widens it: everything that was valid still is."""
    fair: Fair | None = None
    origin: Origin | None = None
    """The job's function, `module:qualname`, if the sender knows it; others of the same name get a warning."""
    limits: list[LimitOfJob] | None = Field(default=None, max_length=MOST_NAMED)
    """The limits of its room that its tasks count against; a key that begins with `/` points into the payload.

    A missing one is created if it says what it allows and the sender may do so; an existing one stays as it is."""
    encrypted: Flag = False
    """Whether submitters and workers encrypt its tasks (`treadle.wire.sealed`)."""

    @model_validator(mode="before")
    @classmethod
    def _both_spellings(cls, data: object) -> object:
        if isinstance(data, dict) and "schema" in data and "schema_" in data:
            raise ValueError("give schema or schema_, not both")
        return data


class JobPatch(Request):
    """Pauses or resumes a queue."""

    paused: Flag


class QueueHistory(Model):
    """What a queue did in equal steps of time, oldest first."""

    step_seconds: Period
    completed: list[int]
    failed: list[int]
    submitted: list[int] = Field(default_factory=list)


class Percentiles(Model):
    """Percentiles of durations in seconds: half, 90, 95 and 99 % took no longer. Null if there are no durations.

    Each is within 4.9 % of the duration that has this rank, or within a millisecond; and the mean likewise.
    """

    n: int = 0
    """The number of durations."""
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None


class QueueStats(Model):
    """What the answering server has measured of a queue since it started."""

    since: Instant
    """When it started counting."""
    wait: Percentiles
    """From submitted, or due, to started: first runs of the last 10 to 15 minutes."""
    run: Percentiles
    """From started to ended: runs that completed or failed in the last 10 to 15 minutes."""
    completed_run: Percentiles = Field(default_factory=Percentiles)
    """The same for runs that completed: how long a run usually takes."""
    failed_last_hour: int = 0
    """Tasks that ended `failed`."""
    retried_last_hour: int = 0
    """Runs that failed or were lost, and whose task was put back for another run."""
    starts_per_second: float | None = None
    """The recent pace of the queue; null when nothing has started in the last five minutes."""
    starts_by_room: dict[str, float | None] | None = None
    """For a fair job: the pace of each room that had starts, since positions count within the room; otherwise null."""


class JobItem(Model):
    """A job and its queue as the server shows them."""

    id: str
    room_id: str
    category: str
    name: str
    full_name: str
    schema_: GivenObject = Field(alias="schema")
    schema_version: int = 1
    workers: list[str] = Field(default_factory=list)
    worker_id: str | None = None
    """In the answer to a registration: the worker that was created or linked."""
    defaults: JsonObject = Field(default_factory=dict)
    retain: bool = False
    fair: Fair | None = None
    origin: str | None = None
    """The function that registered it first, or replaced, widened or revived it last; null if none was given."""
    encrypted: bool = False
    """Whether the payloads of new tasks are sealed by their submitters."""
    paused: bool = False
    counts: dict[str, int] = Field(default_factory=dict)
    retrying: int = 0
    """How many tasks failed and wait for a retry, until it is due or queued, among the last 2,000 runs that failed."""
    oldest_pending_at: Instant | None = None
    oldest_pending_of_pools: dict[str, Instant] = Field(default_factory=dict)
    """The same for tasks that wait for a pool, by the pool's name: the 100 pools that have waited longest."""
    slots: int = 0
    """The capacity of its live workers."""
    history: QueueHistory | None = None
    """The last five minutes in steps of ten seconds, the present one last."""
    past: list[QueueHistory] | None = None
    """The last hour in minutes and the last day in half-hours; none in which nothing ended. Null if unknown."""
    stats: QueueStats | None = None
    created_at: Instant
    version: int = 1

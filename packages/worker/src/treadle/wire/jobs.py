"""Jobs and their queues: registered, steered, and shown with what waits and runs."""

from typing import Literal

from pydantic import Field, model_validator

from treadle.wire.fields import Flag, GivenObject, Instant, JsonObject, Model, Origin, Request, Text
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
    """Whether another schema replaces the registered one; tasks that are there keep theirs."""
    widen: Flag = False
    """Whether it does so when it only widens that one: whatever was valid is valid still."""
    fair: Fair | None = None
    origin: Origin | None = None
    """Which function it is, `module:qualname`, if the sender can say: others of its name are warned."""
    limits: list[LimitOfJob] | None = Field(default=None, max_length=MOST_NAMED)
    """The limits of its room that its tasks count against; a key that begins with `/` points into the payload.

    One that is missing is made by who may, when it says what it allows; one that is there stays as it is."""
    encrypted: Flag = False
    """Whether its tasks are encrypted by those who submit and run them (`treadle.wire.sealed`)."""

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

    step_seconds: float
    completed: list[int]
    failed: list[int]
    submitted: list[int] = Field(default_factory=list)


class Percentiles(Model):
    """How long something took, in seconds: half, 90, 95 and 99 % of it took no longer. Null when there is nothing.

    Each is within 4.9 % of the duration that has this rank, or within a millisecond; and the mean likewise.
    """

    n: int = 0
    """Of how many durations."""
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None


class QueueStats(Model):
    """What the server that was asked has measured of a queue since it started."""

    since: Instant
    """When it began to count; nothing is known of before."""
    wait: Percentiles
    """From submitted, or due, to started: first runs of the last 10 to 15 minutes."""
    run: Percentiles
    """From started to ended: runs that completed or failed in the last 10 to 15 minutes."""
    completed_run: Percentiles = Field(default_factory=Percentiles)
    """Likewise of those that completed: how long a run usually takes."""
    failed_last_hour: int = 0
    """Tasks that ended `failed`."""
    retried_last_hour: int = 0
    """Runs that failed or were lost, and whose task went back for another."""
    starts_per_second: float | None = None
    """The recent pace of the queue; null when nothing has started in the last five minutes."""
    starts_by_room: dict[str, float | None] | None = None
    """Of a fair job the pace in each room that had starts, for positions count within the room; else null."""


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
    """In the answer to a registration: the worker that was made or linked."""
    defaults: JsonObject = Field(default_factory=dict)
    retain: bool = False
    fair: Fair | None = None
    origin: str | None = None
    """Which function registered it first, or replaced, widened or revived it last; null when none said so."""
    encrypted: bool = False
    """Whether the payloads of new tasks are sealed by their submitters."""
    paused: bool = False
    counts: dict[str, int] = Field(default_factory=dict)
    retrying: int = 0
    """How many failed and wait for another try, until it is due or in line, among the last 2,000 runs that failed."""
    oldest_pending_at: Instant | None = None
    oldest_pending_of_pools: dict[str, Instant] = Field(default_factory=dict)
    """The same of those that wait for a pool, by its name: of the 100 pools that have waited longest."""
    slots: int = 0
    """The capacity of its live workers."""
    history: QueueHistory | None = None
    """The last five minutes in steps of ten seconds, the present one last."""
    past: list[QueueHistory] | None = None
    """The last hour in minutes and the last day in half-hours; none in which nothing ended. Null when unknown."""
    stats: QueueStats | None = None
    created_at: Instant
    version: int = 1

"""Tasks as they are submitted, shown and steered; re-exports edits, filters and bulk actions."""

from datetime import datetime, timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from treadle.wire.bulk import BulkAction, BulkEdit, BulkProblem, BulkResult, Freeze, Frozen, FrozenTask
from treadle.wire.edits import TaskChanges, TaskEdit, TaskPatch, Timed
from treadle.wire.fields import (
    MOST_OF_REQUEST,
    TEN_YEARS,
    GivenJson,
    GivenObject,
    Instant,
    Json,
    JsonObject,
    LongText,
    Model,
    Request,
    Text,
    Version,
)
from treadle.wire.filters import TaskFilter
from treadle.wire.flows import ArgumentsFrom, DependsOn
from treadle.wire.ids import Uuid
from treadle.wire.limits import LimitOfTask
from treadle.wire.options import OnDependencyFailure, ShownOptions
from treadle.wire.reasons import TRACE_MEMBERS, TRACE_PARENT
from treadle.wire.status import Ended, Leased, Outcome, Reason, Status

TraceParent = Annotated[str, StringConstraints(pattern=TRACE_PARENT)]
TraceMembers = Annotated[str, StringConstraints(pattern=TRACE_MEMBERS)]
"""A W3C list of members; those beyond the carried length are dropped, from the end."""

MOST_TRACE_STATE = 512
MOST_BAGGAGE = 8192
"""Characters that are carried: the minimum that W3C asks of everyone."""


class TaskSubmit(Timed):
    """One invocation of a job: `POST /v1/rooms/{room}/tasks/{job_name}`."""

    payload: GivenObject = Field(default_factory=dict)
    id: Uuid | None = None
    traceparent: TraceParent | None = None
    """The trace that the task belongs to, as a W3C traceparent. It does not count when two submits are compared."""
    tracestate: TraceMembers | None = None
    """The `tracestate` that goes with `traceparent`; ignored without it."""
    baggage: TraceMembers | None = None
    """W3C baggage, which the program passes along with its calls; ignored without a `traceparent`."""
    depends_on: DependsOn | None = None
    """The tasks that this one waits for: it is `blocked` until they have ended."""
    arguments_from: ArgumentsFrom | None = None
    """Arguments filled from results of dependencies, by argument name: the dependency's name. The worker puts them into
    the payload."""
    flow_id: Uuid | None = None
    """The flow that the task belongs to: a new one, or one of the submitter's own."""
    flow_name: Text | None = None
    """The name of a new flow."""

    @model_validator(mode="after")
    def _named_by_a_dependency(self) -> Self:
        for argument, name in (self.arguments_from or {}).items():
            if name not in (self.depends_on or {}):
                raise ValueError(f"arguments_from.{argument}: {name!r} is not a name in depends_on")
            if argument in self.payload:
                raise ValueError(f"arguments_from.{argument}: is also in the payload; leave one of them out")
        return self


class TaskOfMany(TaskSubmit):
    """One task of many; its job may be in another room than the one submitted from."""

    job: Text
    ref: Text | None = None
    """The name by which other tasks of the same request refer to it in `depends_on`."""


class TaskSubmitMany(Request):
    """Many tasks, all or none: `POST /v1/rooms/{room}/tasks`."""

    tasks: list[TaskOfMany] = Field(min_length=1, max_length=MOST_OF_REQUEST)


class Submitted(Model):
    """The tasks that the request created or found, in its order."""

    tasks: list["TaskItem"]


class Receipt(Model):
    """What a submitter learns about a task as soon as it is stored."""

    id: str
    job_name: str
    room_id: str
    status: Status
    created: bool = True
    """False if the task already existed: one with the same id, or the holder of the unique key."""
    queue_position: int | None = None
    """The place in the queue, if it is known without a read: null unless the task is new and pending, and null for a
    pending task that may not be the last of its priority. `get` returns it."""
    scheduled_at: Instant
    version: int = 1


class TaskHead(Model):
    """A task's identity and status."""

    id: str
    job_name: str
    room_id: str
    status: Status


class TaskItem(ShownOptions, TaskHead):
    """A task as the server shows it."""

    payload: JsonObject = Field(default_factory=dict)
    result: Json = None
    error: str | None = None
    reason: Reason | None = None
    run_id: int | None = None
    """The current run, or the last one; null before the first claim."""
    retry_count: int = 0
    requeue_count: int = 0
    next_retry_at: Instant | None = None
    created_at: Instant
    scheduled_at: Instant
    """When it is or was due."""
    claimed_at: Instant | None = None
    started_at: Instant | None = None
    completed_at: Instant | None = None
    deadline: Instant | None = None
    worker_id: str | None = None
    taken_until: Instant | None = None
    blocked_by: list[str] | None = None
    """What keeps it waiting: the tasks that hold its target, and its full limit, `limit:{room}/{name}` or, for a key,
    `limit:{room}/{name}={key}`."""
    limit_opens_at: Instant | None = None
    """While it waits for a token of its limit: when the rate lets it start, after those ahead of it. Null if this is
    not known: no rate keeps it waiting, or more tasks are ahead of it than are counted."""
    counts_against: list[LimitOfTask] | None = None
    """The limits that the task counts against: its job's, and those that it names itself."""
    queue_position: int | None = None
    """Its 1-based place in the job's queue; null unless pending."""
    usage: float | None = None
    progress: Json = None
    checkpoint: Json = None
    submitter: str | None = None
    trace_id: str | None = None
    """The trace that the task belongs to."""
    cancel_requested: bool = False
    settled: bool = False
    encrypted: bool = False
    """Whether its payload, result, checkpoint, error, logs and progress message are sealed (`treadle.wire.sealed`)."""
    steps: int = 0
    """How many steps are kept (`GET /v1/tasks/{task_id}/steps`)."""
    flow_id: str | None = None
    """The flow that the task belongs to."""
    waits_for: int | None = None
    """How many of its dependencies have not yet ended as required; null if it has none."""
    depends_on: dict[str, str | list[str]] | None = None
    """Its dependencies by name, up to 1,000 of them; only when a single task is fetched."""
    depends_on_total: int | None = None
    """How many dependencies there are, if `depends_on` leaves some out."""
    on_dependency_failure: OnDependencyFailure | None = None
    """Null if the task has no dependencies."""
    arguments_from: dict[str, str] | None = None
    version: int = 1
    left_out: list[Literal["payload", "result", "checkpoint", "error"]] | None = None
    """In a window: the fields of more than 16,384 characters, which are empty there (`error`: cut off)."""

    @property
    def due(self) -> datetime | None:
        """When the task goes on by itself; None if it is not scheduled, or waits for a message without a timeout."""
        if self.status is not Status.SCHEDULED:
            return None
        at = self.next_retry_at or self.scheduled_at
        # Such a wait is stored with a time ten years ahead, which predicts nothing.
        is_endless = self.reason is Reason.SUSPENDED and at - self.created_at >= timedelta(seconds=TEN_YEARS)
        return None if is_endless else at


class RunItem(Model):
    """One attempt at a task; the last one may still be open."""

    task_id: str
    run_id: int
    status: Leased | Outcome
    reason: Reason | None = None
    error: str | None = None
    traceback: str | None = None
    worker_id: str | None = None
    worker_name: str | None = None
    usage: float | None = None
    claimed_at: Instant
    started_at: Instant | None = None
    ended_at: Instant | None = None
    left_out: list[Literal["error", "traceback"]] | None = None
    """Fields left out while a task is watched, as all runs' texts together would be too long; `runs` has them."""


class TaskEvent(Model):
    """Something that happened to a task or will happen: `due`, `retry` and `deadline` may be in the future."""

    at: Instant
    kind: Literal[
        "created", "due", "claimed", "started", "step", "ended", "retry", "pausing", "paused", "changed", "resolved",
        "completed", "failed", "cancelled", "deadline",
    ]  # fmt: skip
    run_id: int | None = None
    status: str | None = None
    """For `ended` and `resolved`: the run's outcome; for `changed`: the task's status; for `step`: its kind."""
    step: str | None = None
    """For `step`: its name."""
    reason: Reason | None = None
    error: str | None = None
    worker_id: str | None = None
    worker_name: str | None = None


class Steer(Request):
    """The body of cancel, pause and resume; it may be left out."""

    if_version: Version | None = None


class Rerun(Steer):
    """Runs an ended task again, from its start or from a given step."""

    from_step: Text | None = None
    """The first step with this name and all those kept after it are run again; earlier ones are kept."""


class Resolve(Steer):
    """Settles a paused or failed task by hand."""

    status: Ended = "completed"
    result: GivenJson = None
    error: LongText | None = None


__all__ = [
    "BulkAction",
    "BulkEdit",
    "BulkProblem",
    "BulkResult",
    "Freeze",
    "Frozen",
    "FrozenTask",
    "Receipt",
    "Rerun",
    "Resolve",
    "RunItem",
    "Steer",
    "TaskChanges",
    "TaskEdit",
    "TaskEvent",
    "TaskFilter",
    "TaskHead",
    "TaskItem",
    "TaskOfMany",
    "TaskPatch",
    "TaskSubmit",
    "TaskSubmitMany",
]

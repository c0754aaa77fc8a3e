"""Tasks as they are submitted, shown and steered; edits, filters and bulk actions can be had here too."""

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
"""W3C's list of members; those that do not fit into what is carried are left out, from the end."""

MOST_TRACE_STATE = 512
MOST_BAGGAGE = 8192
"""Characters that are carried, the least that W3C would have everyone carry."""


class TaskSubmit(Timed):
    """One invocation of a job: `POST /v1/rooms/{room}/tasks/{job_name}`."""

    payload: GivenObject = Field(default_factory=dict)
    id: Uuid | None = None
    traceparent: TraceParent | None = None
    """The trace that it belongs to, as W3C writes it: no part of what makes two submits the same."""
    tracestate: TraceMembers | None = None
    """What belongs to that; it means nothing by itself."""
    baggage: TraceMembers | None = None
    """What the program has its calls carry along, as W3C writes it; it goes with a `traceparent` alone."""
    depends_on: DependsOn | None = None
    """The tasks that it waits for: it is `blocked` until they have ended."""
    arguments_from: ArgumentsFrom | None = None
    """Arguments that are results of those, by the names of both: the worker puts them into the payload."""
    flow_id: Uuid | None = None
    """The flow that it belongs to, a new one or its submitter's own."""
    flow_name: Text | None = None
    """What a new flow is called."""

    @model_validator(mode="after")
    def _named_by_a_dependency(self) -> Self:
        for argument, name in (self.arguments_from or {}).items():
            if name not in (self.depends_on or {}):
                raise ValueError(f"arguments_from.{argument}: {name!r} is no name in depends_on")
            if argument in self.payload:
                raise ValueError(f"arguments_from.{argument}: stands in the payload too; leave one of them out")
        return self


class TaskOfMany(TaskSubmit):
    """A task among many; its job may stand in another room than the one submitted from."""

    job: Text
    ref: Text | None = None
    """What other tasks of the same request call it in their `depends_on`."""


class TaskSubmitMany(Request):
    """Many tasks, all or none: `POST /v1/rooms/{room}/tasks`."""

    tasks: list[TaskOfMany] = Field(min_length=1, max_length=MOST_OF_REQUEST)


class Submitted(Model):
    """The tasks that a request of many has put in, or found there, in its order."""

    tasks: list["TaskItem"]


class Receipt(Model):
    """What a submitter learns at once of a task that is in."""

    id: str
    job_name: str
    room_id: str
    status: Status
    created: bool = True
    """False for a task that was there already: the same id, or the holder of the unique key."""
    queue_position: int | None = None
    """Its place as far as it is known without being read: null unless the task is new and pending, and of a pending one
    that may not stand last of its priority. `get` tells it."""
    scheduled_at: Instant
    version: int = 1


class TaskHead(Model):
    """Which task it is, and where it stands."""

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
    """While it waits for a token of its limit: when the rate lets it start, after those that go before it. Null when
    that is not told: what keeps it is no rate, or more wait before it than are counted."""
    counts_against: list[LimitOfTask] | None = None
    """The limits that it counts against: its job's, and those that it names itself."""
    queue_position: int | None = None
    """Its 1-based place in the job's queue; null unless pending."""
    usage: float | None = None
    progress: Json = None
    checkpoint: Json = None
    submitter: str | None = None
    trace_id: str | None = None
    """The trace that it belongs to."""
    cancel_requested: bool = False
    settled: bool = False
    encrypted: bool = False
    """Whether its payload, result, checkpoint, error, logs and progress message are sealed (`treadle.wire.sealed`)."""
    steps: int = 0
    """How many steps it keeps (`GET /v1/tasks/{task_id}/steps`)."""
    flow_id: str | None = None
    """The flow that it belongs to."""
    waits_for: int | None = None
    """How many of the tasks that it depends on have not ended as it needs them; null when it depends on none."""
    depends_on: dict[str, str | list[str]] | None = None
    """The tasks that it depends on, by name: of a task that is got by itself, up to 1,000 of them."""
    depends_on_total: int | None = None
    """How many it depends on, where `depends_on` leaves some out."""
    on_dependency_failure: OnDependencyFailure | None = None
    """Null when it depends on none."""
    arguments_from: dict[str, str] | None = None
    version: int = 1
    left_out: list[Literal["payload", "result", "checkpoint", "error"]] | None = None
    """In a window: which of these have more than 16,384 characters, and stand there empty, or of `error` in part."""

    @property
    def due(self) -> datetime | None:
        """When it is to go on by itself: None unless it is scheduled, or when it waits for a message without an end."""
        if self.status is not Status.SCHEDULED:
            return None
        at = self.next_retry_at or self.scheduled_at
        # Such a one has a time all the same, so far off that it foretells nothing.
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
    """What is missing where a task is watched: all runs' texts together would be too long. `runs` has them."""


class TaskEvent(Model):
    """Something that happened to a task, or is to happen: `due`, `retry` and `deadline` may lie ahead."""

    at: Instant
    kind: Literal[
        "created", "due", "claimed", "started", "step", "ended", "retry", "pausing", "paused", "changed", "resolved",
        "completed", "failed", "cancelled", "deadline",
    ]  # fmt: skip
    run_id: int | None = None
    status: str | None = None
    """Of `ended` and `resolved` the run's outcome; of `changed` where the task is; of `step` its kind."""
    step: str | None = None
    """Of `step`: its name."""
    reason: Reason | None = None
    error: str | None = None
    worker_id: str | None = None
    worker_name: str | None = None


class Steer(Request):
    """The body of cancel, pause and resume; it may be left out."""

    if_version: Version | None = None


class Rerun(Steer):
    """Runs an ended task again: from its start, or from a step on."""

    from_step: Text | None = None
    """The first step of this name and all that were kept after it are done again; those before it stay kept."""


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

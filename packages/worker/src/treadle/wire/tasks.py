"""Tasks as they are submitted, shown, edited and steered."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, StringConstraints, model_validator

from treadle.wire.fields import (
    Amount,
    GivenInstant,
    GivenJson,
    GivenObject,
    Instant,
    Json,
    JsonObject,
    LongText,
    Model,
    Request,
    RunNumber,
    Text,
    Version,
)
from treadle.wire.flows import ArgumentsFrom, DependsOn
from treadle.wire.ids import Uuid, is_uuid
from treadle.wire.limits import LimitOfTask
from treadle.wire.names import Room
from treadle.wire.options import CLEARED, OnDependencyFailure, ShownOptions, TaskTimes
from treadle.wire.status import Ended, Leased, Outcome, Reason, Status
from treadle.wire.transitions import Action
from treadle.wire.values import MOST_INTEGER

TraceParent = Annotated[str, StringConstraints(pattern=r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")]
TraceState = Annotated[str, StringConstraints(max_length=512, pattern=r"^[ -~\t]*$")]


class _Timed(TaskTimes):
    """A task that is due at one time."""

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if self.delay is not None and self.scheduled_at is not None:
            raise ValueError("give either delay or scheduled_at, not both")
        return self


class TaskSubmit(_Timed):
    """One invocation of a job: `POST /v1/rooms/{room}/tasks/{job_name}`."""

    payload: GivenObject = Field(default_factory=dict)
    id: Uuid | None = None
    traceparent: TraceParent | None = None
    """The trace that it belongs to, as W3C writes it: no part of what makes two submits the same."""
    tracestate: TraceState | None = None
    """What belongs to that; it means nothing by itself."""
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

    tasks: list[TaskOfMany] = Field(min_length=1, max_length=10_000)


class Receipt(Model):
    """What a submitter learns at once of a task that is in."""

    id: str
    job_name: str
    room_id: str
    status: Status
    created: bool = True
    """False for a task that was there already: the same id, or the holder of the unique key."""
    queue_position: int | None = None
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
    on_dependency_failure: OnDependencyFailure | None = None
    """Null when it depends on none."""
    arguments_from: dict[str, str] | None = None
    version: int = 1


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


class TaskChanges(_Timed):
    """What an edit may change of a task that does not run yet: all that a submit says of it but its id.

    What is left out stays. Null takes away what a task need not have (`CLEARED`); the rest may not be null.
    """

    payload: GivenObject | None = None
    checkpoint: GivenJson = None
    """What the next run gets; null drops it."""
    if_version: Version | None = None

    @model_validator(mode="after")
    def _not_null(self) -> Self:
        of_edit = self.model_fields_set & EDITABLE - CLEARED
        if nulls := sorted(name for name in of_edit if getattr(self, name) is None):
            raise ValueError(f"{', '.join(nulls)}: may not be null; leave it out to keep what it is")
        return self


EDITABLE = frozenset(TaskChanges.model_fields) - {"checkpoint", "if_version"}
"""What only an edit may change; a checkpoint may come with a status too."""

_CHANGES = ", ".join(name for name in TaskChanges.model_fields if name != "if_version")


class TaskPatch(TaskChanges):
    """A status, by the worker or as the cancel verb; or an edit of a task that does not run yet."""

    status: Status | None = None
    run_id: RunNumber | None = None
    result: GivenJson = None
    error: LongText | None = None
    traceback: LongText | None = None
    reason: Reason | None = None
    usage: Amount | None = None
    checkpoint: GivenJson = None
    """With a status: where the run stopped. In an edit: what the next run gets; null drops it."""

    @model_validator(mode="after")
    def _status_or_edit(self) -> Self:
        given = self.model_fields_set - {"if_version"}
        if not given:
            raise ValueError(f"give a status, or what is to be changed: {_CHANGES}")
        if "status" in given and given & EDITABLE:
            raise ValueError("a change of status and an edit are two requests")
        if "status" not in given and (others := given - EDITABLE - {"checkpoint"}):
            raise ValueError(f"{', '.join(sorted(others))}: only with a status")
        if "status" in given and self.status is None:
            raise ValueError("status may not be null")
        return self


class TaskEdit(TaskChanges):
    """An edit of one of many tasks."""

    id: Uuid

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set - {"id", "if_version"}:
            raise ValueError(f"give what is to be changed: {_CHANGES}")
        return self


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


def _several(value: object) -> object:
    """Take one for a list of one."""
    return [value] if isinstance(value, str) else value


def _as_one(values: list[str]) -> list[str] | str:
    """Write a list of one as older servers read it."""
    return values[0] if len(values) == 1 else values


def _no_flag(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("write a number")  # noqa: TRY004 - pydantic takes this one for a refusal
    return value


def _id_or_name(text: str) -> str:
    """Return a worker's id in lower case, and its name as it is."""
    return text.lower() if is_uuid(text.lower()) else text


Count = Annotated[int, BeforeValidator(_no_flag), Field(ge=0, le=MOST_INTEGER)]
Duration = Annotated[float, BeforeValidator(_no_flag), Field(ge=0, le=315_360_000, allow_inf_nan=False)]
WorkerWord = Annotated[Text, AfterValidator(_id_or_name)]
"""A worker's id, or its name."""

TagWord = Annotated[str, Field(max_length=1300)]
"""`path` or `path=value`: `region.name=eu` reaches into `{"region": {"name": "eu"}}`, and into arrays."""

_SEVERAL = (BeforeValidator(_several), Field(max_length=20))


class TaskFilter(Request):
    """Which tasks a list, a window or a bulk action means; parts that are given must all hold."""

    room: Room | None = None
    status: list[Status] | None = None
    job: Text | None = None
    target: Text | None = None
    worker: WorkerWord | None = None
    tag: Annotated[list[TagWord], *_SEVERAL, PlainSerializer(_as_one)] | None = None
    """All of which it has."""
    id: Annotated[str, StringConstraints(pattern=r"^([0-9a-fA-F]-?){1,32}$", to_lower=True)] | None = None
    """The beginning of the id, or all of it."""
    flow: Uuid | None = None
    """The id of the flow that it belongs to."""
    text: Text | None = None
    """Part of the id, the job's name, the payload or the error."""
    created_from: GivenInstant | None = None
    created_until: GivenInstant | None = None
    """Before this; what is `…_from` an instant is of that instant too."""
    started_from: GivenInstant | None = None
    started_until: GivenInstant | None = None
    """When its last run was started."""
    ended_from: GivenInstant | None = None
    ended_until: GivenInstant | None = None
    least_tries: Count | None = None
    most_tries: Count | None = None
    """How often it was claimed."""
    least_seconds: Duration | None = None
    most_seconds: Duration | None = None
    """From its last start to its end, of what has both."""
    error: Text | None = None
    """The class of its error, `ValueError`, or the reason, `timeout`."""
    failure: Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{16}$", to_lower=True)] | None = None
    """The group of failures (`FailureGroup.id`) that its last run is of."""
    not_room: Annotated[list[Room], *_SEVERAL] | None = None
    """None of which it is of; so with all that begin with `not_`."""
    not_job: Annotated[list[Text], *_SEVERAL] | None = None
    not_target: Annotated[list[Text], *_SEVERAL] | None = None
    not_worker: Annotated[list[WorkerWord], *_SEVERAL] | None = None
    not_tag: Annotated[list[TagWord], *_SEVERAL] | None = None
    not_error: Annotated[list[Text], *_SEVERAL] | None = None


Order = Literal["position", "newest", "oldest", "updated"]
"""How lists of tasks are ordered; docs/protocol.md says by what."""


class Freeze(Request):
    """Asks which tasks a filter means at this moment."""

    filter: TaskFilter = Field(default_factory=TaskFilter)
    order: Order = "position"
    limit: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 10_000


class FrozenTask(Model):
    """A task as it was when it was asked for."""

    id: str
    version: int
    status: Status
    job_name: str


class Frozen(Model):
    """The tasks that a filter meant at one moment, for a bulk action on exactly these."""

    items: list[FrozenTask]
    is_capped: bool
    """Whether more match than are listed."""
    at: Instant


class BulkAction(Request):
    """One verb for many tasks: those named, or those that a filter means at this moment."""

    action: Action
    ids: list[Uuid] | None = Field(default=None, max_length=10_000)
    filter: TaskFilter | None = None
    if_versions: dict[Uuid, Version] | None = None
    status: Ended | None = None
    result: GivenJson = None
    error: LongText | None = None

    @model_validator(mode="after")
    def _ids_or_filter(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("give either ids or filter")
        if self.ids is not None and (others := (self.if_versions or {}).keys() - set(self.ids)):
            raise ValueError(f"if_versions: {min(others)} is none of the ids")
        return self


class BulkEdit(Request):
    """Edits of many tasks, each with its own changes: an undo gives each back what it had."""

    edits: list[TaskEdit] = Field(min_length=1, max_length=10_000)

    @model_validator(mode="after")
    def _once_each(self) -> Self:
        if len({edit.id for edit in self.edits}) < len(self.edits):
            raise ValueError("edits: an id stands twice")
        return self


class BulkProblem(Model):
    """Why nothing was done to one of the tasks."""

    id: str
    outcome: Literal["refused", "changed", "missing", "untried"] = "refused"
    """Refused by the rules; changed since the version named; there is none; or the server gave up before it."""
    type: str
    detail: str
    version: int | None = None
    """The version that it has, read after the answer was known; null when it is missing or can't be read."""
    status: Status | None = None
    """Where it is, likewise."""


class BulkResult(Model):
    """What became of each task: those that were done stand in `versions`, all others in `problems`."""

    action: Action | Literal["edit"]
    matched: int
    changed: int
    versions: dict[str, int] = Field(default_factory=dict)
    """The new version of each changed task, for an undo that acts only on what nobody touched since."""
    problems: list[BulkProblem] = Field(default_factory=list)
    problems_are_capped: bool = False
    """Whether there are more problems than are listed: only for a filter, of which 1,000 are."""

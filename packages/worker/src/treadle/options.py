"""Options of one submit: when, how urgently and how often a task is run."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from pydantic import BeforeValidator, Field, ValidationError

from treadle.errors import InvalidArguments
from treadle.wire.fields import Amount, Budget, Instant, Priority, Request, Tags, Text, Weight
from treadle.wire.ids import Uuid
from treadle.wire.tasks import OnFailure


def seconds(value: float | timedelta | None) -> float | None:
    """Return a duration in seconds, as it goes over the wire; None stays None."""
    return value.total_seconds() if isinstance(value, timedelta) else value


_TEN_YEARS = 315_360_000
_Duration = Annotated[float | timedelta, BeforeValidator(seconds), Field(ge=0, le=_TEN_YEARS)]
_PositiveDuration = Annotated[float | timedelta, BeforeValidator(seconds), Field(gt=0, le=_TEN_YEARS)]


class Options(Request):
    """How one task is run. What is left out comes from the job, then from the server; an explicit 0 counts.

    Durations are seconds or timedeltas, instants are aware datetimes. Raises `InvalidArguments`, which names the option
    and the value.
    """

    if not TYPE_CHECKING:
        # Type checkers know the options from the fields, which this would hide.
        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise InvalidArguments(_explain(error)) from None

    id: Uuid | None = None
    """The task's id, a UUID: the same id with the same content is the same task."""
    priority: Priority | None = None
    """Higher goes first."""
    delay: _Duration | None = None
    """How long the task waits before it is due."""
    scheduled_at: Instant | None = None
    """When it is due."""
    deadline: Instant | None = None
    """Past it the task is not run and fails."""
    timeout: _PositiveDuration | None = None
    """How long a run may take."""
    max_retries: Budget | None = None
    """How often it is tried again after its code failed."""
    max_requeues: Budget | None = None
    """How often it is put back after its worker was lost."""
    retry_base: _Duration | None = None
    """The delay of the first retry."""
    retry_multiplier: Annotated[float, Field(ge=1, le=100)] | None = None
    retry_randomization: Annotated[float, Field(ge=0, le=10)] | None = None
    lease_seconds: _PositiveDuration | None = None
    heartbeat_increment: _Duration | None = None
    start_timeout: _PositiveDuration | None = None
    target: Text | None = None
    """The named resource that the task has for itself while it runs."""
    on_failure: OnFailure | None = None
    weight: Weight | None = None
    """How much of a worker's concurrency it takes."""
    budget: Amount | None = None
    """How much it may use, in its own unit."""
    pool: Text | None = None
    """The pool of workers that may run it."""
    tags: Tags | None = None
    scopes: list[Text] | None = None
    unique_key: Text | None = None
    """While an open task of the job holds the key, a submit returns that one."""

    def wire(self) -> dict[str, Any]:
        """Return the options that were given, as JSON."""
        return self.model_dump(mode="json", exclude_unset=True, exclude_none=True)

    def over(self, base: "Options | None") -> "Options":
        """Return these options with `base` under them."""
        if base is None:
            return self
        return base.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


class TaskEdits(TypedDict, total=False):
    """What `Client.edit` changes of a task: all that `Options` says of it but its id, its payload and its checkpoint.

    None takes away what a task need not have: a timeout, deadline, budget, target, pool, tags, scopes, unique key; a
    `heartbeat_increment` of None is as long as the lease.
    """

    payload: Mapping[str, Any]
    checkpoint: Any
    """What the next run gets."""
    priority: int
    delay: float | timedelta
    scheduled_at: datetime
    deadline: datetime | None
    timeout: float | timedelta | None
    max_retries: int
    max_requeues: int
    retry_base: float | timedelta
    retry_multiplier: float
    retry_randomization: float
    lease_seconds: float | timedelta
    heartbeat_increment: float | timedelta | None
    start_timeout: float | timedelta
    target: str | None
    on_failure: OnFailure
    weight: int
    budget: float | None
    pool: str | None
    tags: Mapping[str, Any] | None
    scopes: list[str] | None
    unique_key: str | None


def wire_edits(changes: "TaskEdits") -> dict[str, Any]:
    """Return the changes as they go over the wire: durations in seconds."""
    return {name: seconds(value) if isinstance(value, timedelta) else value for name, value in changes.items()}


def _explain(error: ValidationError) -> str:
    places = []
    for detail in error.errors(include_url=False):
        name = ".".join(map(str, detail["loc"]))
        if detail["type"] == "extra_forbidden":
            places.append(f"there is no option {name}; there are {', '.join(sorted(Options.model_fields))}")
        else:
            places.append(f"{name}: {detail['msg']}, not {detail['input']!r}")
    return "; ".join(places)

"""The options of a task besides its payload, each defined once for all who accept, store or show it.

The models say where an option may be given: those of `TaskOptions` with a job, a schedule, a submit and an edit;
`TaskTraits` not with a job; `TaskTimes` not with a schedule either. The fields hold the types and their bounds,
`Option` the text for people. Derived from here are `Options`, `@task` and `Client.edit` of the SDK, the flags of the
command line, the dashboard's editor, and the server's defaults. Type checkers read no tables, so the names
are repeated in `OfJob`, `OfTask` and `ShownOptions`; a test keeps them in step with the models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Generic, Literal, Never, TypeAlias, TypedDict, TypeVar

from pydantic import BaseModel, Field

from treadle.wire.fields import (
    MOST_MULTIPLIER,
    MOST_RANDOMIZATION,
    Amount,
    Budget,
    GivenInstant,
    JsonObject,
    Model,
    PositiveSeconds,
    Priority,
    Request,
    Seconds,
    Tags,
    Text,
    Weight,
)
from treadle.wire.ids import GivenId
from treadle.wire.limits import MOST_NAMED, LimitName

OnFailure: TypeAlias = Literal["hold", "release"]
OnDependencyFailure: TypeAlias = Literal["cancel", "run", "hold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How an option is described to people, and how they give it."""

    help: str
    """The meaning of the value, in a phrase."""
    default: Any = None
    """The value if neither the call, nor the job, nor a setting of the server gives one."""
    null: str | None = None
    """What null means in an edit, where it clears the value; None if the option may not be null."""
    example: str | None = None
    flag: str | None = None
    """The flag's name, if it is not the option's own."""
    each: str | None = None
    """For a flag that may be repeated: the meaning of each value."""
    form: str | None = None
    """How the flag's value is written, such as KEY=VALUE."""


class TaskOptions(Request):
    """How a task is run. Options left out come from the job, then from the server's settings; an explicit 0 counts."""

    priority: Annotated[Priority | None, Option(help="higher priorities run first", default=0)] = None
    max_retries: Annotated[
        Budget | None, Option(help="how many times it is retried after its code fails", default=0)
    ] = None
    max_requeues: Annotated[
        Budget | None, Option(help="how many times it is requeued after its worker is lost", default=0)
    ] = None
    retry_base: Annotated[Seconds | None, Option(help="seconds before the first retry", default=5.0)] = None
    retry_multiplier: Annotated[
        Annotated[float, Field(strict=True, ge=1, le=MOST_MULTIPLIER, allow_inf_nan=False)] | None,
        Option(help="the factor by which each further delay grows", default=2.0),
    ] = None
    retry_randomization: Annotated[
        Annotated[float, Field(strict=True, ge=0, le=MOST_RANDOMIZATION, allow_inf_nan=False)] | None,
        Option(help="the largest random share added to a delay", default=0.0),
    ] = None
    timeout: Annotated[
        PositiveSeconds | None, Option(help="seconds a run may take", null="any", flag="run-timeout")
    ] = None
    lease_seconds: Annotated[
        PositiveSeconds | None, Option(help="seconds a claim lasts without a heartbeat", default=60.0)
    ] = None
    heartbeat_increment: Annotated[
        Seconds | None, Option(help="seconds from a heartbeat to the new end of the lease", null="as long as the lease")
    ] = None
    start_timeout: Annotated[
        PositiveSeconds | None, Option(help="seconds within which a claimed task must start", default=60.0)
    ] = None
    on_failure: Annotated[
        OnFailure | None, Option(help="whether a failed task holds its target or releases it", default="hold")
    ] = None
    weight: Annotated[Weight | None, Option(help="how much of a worker's concurrency it takes", default=1)] = None
    budget: Annotated[
        Amount | None, Option(help="how much its runs together may use, in a unit of your own", null="any")
    ] = None
    pool: Annotated[Text | None, Option(help="the only pool of workers that may run it", null="any")] = None


class TaskTraits(TaskOptions):
    """Options of a task besides `TaskOptions`, for a submit, a schedule and an edit alike."""

    target: Annotated[Text | None, Option(help="a named resource that one task at a time may use", null="none")] = None
    tags: Annotated[
        Tags | None,
        Option(
            help="values by name, by which tasks are found",
            null="none",
            example='{"order": "A-17", "region": {"name": "eu"}}',
            flag="tag",
            each="a tag, or KEY:=JSON if its value is not a text",
            form="KEY=VALUE",
        ),
    ] = None
    scopes: Annotated[
        list[Text] | None,
        Option(
            help="what its code may do on the server, beyond reporting its own run",
            null="nothing",
            flag="scope",
            each="a scope that its runs have",
        ),
    ] = Field(default=None, max_length=64)
    unique_key: Annotated[
        Text | None, Option(help="a key that only one open task of the job may have", null="none")
    ] = None
    limits: Annotated[
        list[LimitName] | None,
        Option(
            help="limits of its room that it counts against, besides those of its job",
            null="none",
            example='[{"name": "openai", "key": "acme"}]',
            flag="limit",
            each="a limit that it counts against, for a key of its own if one is given",
            form="NAME[=KEY]",
        ),
    ] = Field(default=None, max_length=MOST_NAMED)


class TaskTimes(TaskTraits):
    """When a task is due, and its deadline."""

    delay: Annotated[Seconds | None, Option(help="seconds until it is due")] = None
    scheduled_at: Annotated[
        GivenInstant | None, Option(help="when it is due, with a zone", example="2026-11-21T12:00:00Z", flag="at")
    ] = None
    deadline: Annotated[GivenInstant | None, Option(help="when it fails unless it has ended", null="never")] = None
    on_dependency_failure: Annotated[
        OnDependencyFailure | None,
        Option(help="what to do when a task that it waits for does not complete", default="cancel"),
    ] = None


def options_of(model: type[BaseModel]) -> dict[str, Option]:
    """Return the options among a model's fields, in their order."""
    found: dict[str, Option] = {}
    for name, field in model.model_fields.items():
        for said in field.metadata:
            if isinstance(said, Option):
                found[name] = said
    return found


OF_JOB: Mapping[str, Option] = options_of(TaskOptions)
"""The options that a job may set for its tasks."""

OPTIONS: Mapping[str, Option] = options_of(TaskTimes)
"""All options."""

CLEARED = frozenset(name for name, option in OPTIONS.items() if option.null is not None)
"""The options that null clears. A null `heartbeat_increment` means the length of the lease, as in a submit."""


# For type checkers. Options with `M` beside their type are mandatory for a task, those with `N` can be cleared; `M` and
# `N` become `Never` or `None`, depending on whether the option may be None there.

M = TypeVar("M")
N = TypeVar("N")


class OfJob(TypedDict, Generic[M, N], total=False):
    """The fields of `TaskOptions`, as keywords."""

    priority: int | M
    max_retries: int | M
    max_requeues: int | M
    retry_base: float | timedelta | M
    retry_multiplier: float | M
    retry_randomization: float | M
    timeout: float | timedelta | N
    lease_seconds: float | timedelta | M
    heartbeat_increment: float | timedelta | N
    start_timeout: float | timedelta | M
    on_failure: OnFailure | M
    weight: int | M
    budget: float | N
    pool: str | N


class OfTask(OfJob[M, N], Generic[M, N], total=False):
    """The fields of `TaskTimes`, as keywords."""

    target: str | N
    tags: Mapping[str, Any] | N
    scopes: list[str] | N
    unique_key: str | N
    limits: Sequence[object] | N
    delay: float | timedelta | M
    scheduled_at: datetime | M
    deadline: datetime | N
    on_dependency_failure: OnDependencyFailure | M


class TaskDefaults(OfJob[Never, Never], total=False):
    """The options that `@task` takes: defaults that a submit may override."""


class GivenOptions(OfTask[None, None], total=False):
    """The options that `Options` takes; None leaves an option to the job."""

    id: GivenId | None
    depends_on: Mapping[str, GivenId | Sequence[GivenId]] | None
    flow_id: GivenId | None
    flow_name: str | None


class TaskEdits(OfTask[Never, None], total=False):
    """What `Client.edit` changes of a task: its options (without id), its payload and its checkpoint.

    None clears what a task need not have: a timeout, deadline, budget, target, pool, tags, scopes, unique key,
    limits; a `heartbeat_increment` of None is as long as the lease.
    """

    payload: Mapping[str, Any]
    checkpoint: Any
    """The checkpoint that the next run gets."""


class ShownOptions(Model):
    """A task's options: its own, or else the job's and the server's."""

    priority: int = 0
    max_retries: int = 0
    max_requeues: int = 0
    retry_base: float | None = None
    retry_multiplier: float | None = None
    retry_randomization: float | None = None
    timeout: float | None = None
    lease_seconds: float | None = None
    heartbeat_increment: float | None = None
    start_timeout: float | None = None
    on_failure: OnFailure | None = None
    weight: int = 1
    budget: float | None = None
    pool: str | None = None
    target: str | None = None
    tags: JsonObject | None = None
    scopes: list[str] | None = None
    unique_key: str | None = None
    limits: list[LimitName] | None = None

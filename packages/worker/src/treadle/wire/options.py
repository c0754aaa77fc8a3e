"""What a submit may say of a task beside its payload: each option once, for whoever takes, keeps or shows it.

The models say where an option may be given: those of `TaskOptions` with a job, a schedule, a submit and an edit;
`TaskTraits` not with a job; `TaskTimes` not with a schedule either. The fields have the types and their bounds;
`Option` has what people are told. From here come `Options`, `@task` and `Client.edit` of the SDK, the flags of the
command line, the dashboard's editor, and the server's defaults. For type checkers, which read no tables, the names
stand again in `OfJob`, `OfTask` and `ShownOptions`; a test holds them to the models.
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
    """What people are told of an option, and how they give it."""

    help: str
    """What its value is, in a phrase."""
    default: Any = None
    """What holds when neither the call, nor the job, nor a setting of the server says anything."""
    null: str | None = None
    """What null stands for in an edit, where it takes the value away; None: the option may not be null."""
    example: str | None = None
    flag: str | None = None
    """The flag's name, where it is not the option's own."""
    each: str | None = None
    """Of a flag that may be given again: what each is."""
    form: str | None = None
    """How the flag's value is written."""


class TaskOptions(Request):
    """How a task is run. What is left out comes from the job, then from the server's settings; an explicit 0 counts."""

    priority: Annotated[Priority | None, Option(help="higher goes first", default=0)] = None
    max_retries: Annotated[
        Budget | None, Option(help="how many times it is retried after its code failed", default=0)
    ] = None
    max_requeues: Annotated[
        Budget | None, Option(help="how many times it is put back after its worker was lost", default=0)
    ] = None
    retry_base: Annotated[Seconds | None, Option(help="seconds before the first retry", default=5.0)] = None
    retry_multiplier: Annotated[
        Annotated[float, Field(strict=True, ge=1, le=MOST_MULTIPLIER, allow_inf_nan=False)] | None,
        Option(help="the factor by which each further delay grows", default=2.0),
    ] = None
    retry_randomization: Annotated[
        Annotated[float, Field(strict=True, ge=0, le=MOST_RANDOMIZATION, allow_inf_nan=False)] | None,
        Option(help="the largest random share that is added to a delay", default=0.0),
    ] = None
    timeout: Annotated[
        PositiveSeconds | None, Option(help="seconds that a run may take", null="any", flag="run-timeout")
    ] = None
    lease_seconds: Annotated[
        PositiveSeconds | None, Option(help="seconds that a claim lasts without a heartbeat", default=60.0)
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
    """What else belongs to a task, whenever it is put in: of a submit, a schedule and an edit alike."""

    target: Annotated[Text | None, Option(help="a named resource that one task at a time may have", null="none")] = None
    tags: Annotated[
        Tags | None,
        Option(
            help="values by name, to find it by",
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
            help="what its code may do at the server, besides its own run",
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
    """When a task is due, and until when it is of use."""

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
"""Those that a job may say of its tasks."""

OPTIONS: Mapping[str, Option] = options_of(TaskTimes)
"""All of them."""

CLEARED = frozenset(name for name, option in OPTIONS.items() if option.null is not None)
"""What null takes away. A `heartbeat_increment` of null is as long as the lease, as in a submit."""


# For type checkers. A task must have what is `M` beside its type, and need not have what is `N`: `Never` or `None`
# stand there, as it may be left away or not.

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
    """What `@task` takes beside the names; each is a default that a submit may override."""


class GivenOptions(OfTask[None, None], total=False):
    """What `Options` takes; None leaves it to the job."""

    id: GivenId | None
    depends_on: Mapping[str, GivenId | Sequence[GivenId]] | None
    flow_id: GivenId | None
    flow_name: str | None


class TaskEdits(OfTask[Never, None], total=False):
    """What `Client.edit` changes of a task: all that `Options` says of it but its id, its payload and its checkpoint.

    None takes away what a task need not have: a timeout, deadline, budget, target, pool, tags, scopes, unique key,
    limits; a `heartbeat_increment` of None is as long as the lease.
    """

    payload: Mapping[str, Any]
    checkpoint: Any
    """What the next run gets."""


class ShownOptions(Model):
    """What a task was told, and what the job and the server said where it was not."""

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

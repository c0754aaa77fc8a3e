"""Dependencies between tasks in submits and claims, and flows as they are shown."""

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from treadle.wire.fields import Instant, Json, Model, Share, Text, few
from treadle.wire.options import OnDependencyFailure
from treadle.wire.status import Reason, Status
from treadle.wire.transitions import Action

MOST_DEPENDENCIES = 100_000
"""How many dependencies a task may have, under all names together; also all tasks of one request together."""


_NAMES = 1000
"""Under which the results of dependencies come, and arguments that are some of them."""


def _named(given: object, check: ValidatorFunctionWrapHandler) -> object:
    try:
        return check(given)
    except ValidationError:
        raise ValueError(
            f"write the id or ref of a task, or a list of 1 to {MOST_DEPENDENCIES:,} of them: strings of 1 to 255"
            " characters"
        ) from None


Named = Annotated[
    Text | Annotated[list[Text], Field(min_length=1, max_length=MOST_DEPENDENCIES)], WrapValidator(_named)
]
"""A task by its id or its `ref`, or a list of them, whose results come as a list."""


def _few(names: dict[str, str | list[str]]) -> dict[str, str | list[str]]:
    if (total := sum(1 if isinstance(said, str) else len(said) for said in names.values())) > MOST_DEPENDENCIES:
        raise ValueError(f"names {total} tasks; a task can wait for at most {MOST_DEPENDENCIES}")
    return names


DependsOn = Annotated[dict[Text, Named], Field(min_length=1, max_length=_NAMES), few(_NAMES), AfterValidator(_few)]
"""The tasks that one waits for, by the names under which their results come."""

ArgumentsFrom = Annotated[dict[Text, Text], Field(min_length=1, max_length=_NAMES), few(_NAMES)]
"""Which arguments are results of dependencies: the argument's name, and the dependency's."""


class Dependency(Model):
    """A dependency of a task, as a claim carries it."""

    id: str
    status: Status
    result: Json = None
    """What the task returned; null if it did not complete, or if the claim leaves results out."""
    error: str | None = None


class FlowItem(Model):
    """A flow as it is listed."""

    id: str
    name: str | None = None
    room_id: str
    submitter: str | None = None
    created_at: Instant
    total: int = 0
    """How many tasks it has."""
    counts: dict[str, int] = Field(default_factory=dict)
    """How many of them are in each status; statuses without tasks are left out."""
    progress: Share = 0.0
    """The share of its tasks that have ended."""


class FlowTask(Model):
    """A task of a flow, with the fields that a drawing of the flow needs."""

    id: str
    job_name: str
    status: Status
    reason: Reason | None = None
    error: str | None = None
    waits_for: int | None = None
    on_dependency_failure: OnDependencyFailure | None = None
    """Null if the task has no dependencies."""
    created_at: Instant
    started_at: Instant | None = None
    completed_at: Instant | None = None
    ran_seconds: float | None = None
    """The total duration of its ended runs; null from servers that do not report it."""


class FlowEdge(Model):
    """A dependency: one task waits for another."""

    task_id: str
    needs_id: str
    """The id of the task waited for, which may belong to another flow."""
    names: list[str]
    """The names under which its result comes."""


class FlowView(FlowItem):
    """A flow with its tasks and what they wait for."""

    tasks: list[FlowTask] = Field(default_factory=list)
    """In the order in which they were submitted."""
    edges: list[FlowEdge] = Field(default_factory=list)
    is_capped: bool = False
    """Whether it has more tasks or edges than are listed: `GET /v1/tasks?flow=ID` lists all of the tasks."""


FLOW_VERBS: dict[str, Action] = {
    "cancel": "cancel",
    "pause": "pause",
    "resume": "resume",
    "rerun-failed": "rerun",
}
"""The verbs of a flow, and the verb that each applies to the flow's tasks."""

MOST_SHOWN_TASKS = 2000
"""Tasks of a flow that are shown with it."""

MOST_SHOWN_EDGES = 10_000
"""Edges of a flow that are shown with it."""

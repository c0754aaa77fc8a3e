"""Tasks that wait for tasks: what a submit says of it, what a claim carries of it, and flows as they are shown."""

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from treadle.wire.fields import Instant, Json, Model, Share, Text, few
from treadle.wire.options import OnDependencyFailure
from treadle.wire.status import Reason, Status
from treadle.wire.transitions import Action

MOST_DEPENDENCIES = 100_000
"""Tasks that one task waits for at most, under all names together; and all tasks of one request."""


_NAMES = 1000
"""Under which the results of dependencies come, and arguments that are some of them."""


def _named(given: object, check: ValidatorFunctionWrapHandler) -> object:
    try:
        return check(given)
    except ValidationError:
        raise ValueError(
            f"write the id or ref of a task, or a list of 1 to {MOST_DEPENDENCIES:,} of them: texts of 1 to 255"
            " characters"
        ) from None


Named = Annotated[
    Text | Annotated[list[Text], Field(min_length=1, max_length=MOST_DEPENDENCIES)], WrapValidator(_named)
]
"""A task by its id or its `ref`, or a list of them, whose results come as a list."""


def _few(names: dict[str, str | list[str]]) -> dict[str, str | list[str]]:
    if (total := sum(1 if isinstance(said, str) else len(said) for said in names.values())) > MOST_DEPENDENCIES:
        raise ValueError(f"names {total} tasks, and one task waits for {MOST_DEPENDENCIES} at most")
    return names


DependsOn = Annotated[dict[Text, Named], Field(min_length=1, max_length=_NAMES), few(_NAMES), AfterValidator(_few)]
"""The tasks that one waits for, by the names under which their results come."""

ArgumentsFrom = Annotated[dict[Text, Text], Field(min_length=1, max_length=_NAMES), few(_NAMES)]
"""Which arguments are results of dependencies: the argument's name, and the dependency's."""


class Dependency(Model):
    """A task that another one waited for, as a claim carries it."""

    id: str
    status: Status
    result: Json = None
    """What it returned; null where it did not complete, and where the claim leaves results out."""
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
    """How many of them are in which status; those without tasks are left out."""
    progress: Share = 0.0
    """The share of its tasks that have ended."""


class FlowTask(Model):
    """A task of a flow, as far as a picture of the flow needs it."""

    id: str
    job_name: str
    status: Status
    reason: Reason | None = None
    error: str | None = None
    waits_for: int | None = None
    on_dependency_failure: OnDependencyFailure | None = None
    """Null when it depends on none."""
    created_at: Instant
    started_at: Instant | None = None
    completed_at: Instant | None = None
    ran_seconds: float | None = None
    """How long those of its runs took that are over, all together; null from a server that does not tell."""


class FlowEdge(Model):
    """That one task waits for another one."""

    task_id: str
    needs_id: str
    """A task that need not be of the same flow."""
    names: list[str]
    """The names under which its result comes."""


class FlowView(FlowItem):
    """A flow with its tasks and what they wait for."""

    tasks: list[FlowTask] = Field(default_factory=list)
    """In the order of their arrival."""
    edges: list[FlowEdge] = Field(default_factory=list)
    is_capped: bool = False
    """Whether it has more tasks or edges than are listed: `GET /v1/tasks?flow=ID` lists all of the tasks."""


FLOW_VERBS: dict[str, Action] = {
    "cancel": "cancel",
    "pause": "pause",
    "resume": "resume",
    "rerun-failed": "rerun",
}
"""What people do to a flow, and the verb that it is for each of its tasks."""

MOST_SHOWN_TASKS = 2000
"""Tasks of a flow that are shown with it."""

MOST_SHOWN_EDGES = 10_000
"""Edges of a flow that are shown with it."""

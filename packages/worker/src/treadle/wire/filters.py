"""Filters: which tasks a list, a window or a bulk action selects, and in which order."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, StringConstraints

from treadle.wire.fields import EARLIEST, LATEST, TEN_YEARS, GivenInstant, Request, Text
from treadle.wire.ids import IdBeginning, is_uuid
from treadle.wire.names import Room
from treadle.wire.reasons import FAILURE_ID
from treadle.wire.status import Status
from treadle.wire.values import MOST_INTEGER


def _several(value: object) -> object:
    """Turn a single value into a list of one."""
    return [value] if isinstance(value, str) else value


def _as_one(values: list[str]) -> list[str] | str:
    """Write a list of one as a single value, which older servers expect."""
    return values[0] if len(values) == 1 else values


def _no_flag(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("write a number")  # noqa: TRY004 - pydantic only reports ValueError
    return value


def _id_or_name(text: str) -> str:
    """Return a worker's id in lower case, and a name unchanged."""
    return text.lower() if is_uuid(text.lower()) else text


def _within_all(bound: datetime) -> datetime:
    """Return the bound, or the nearest one that a server keeps: no task's time lies between the two."""
    return min(max(bound, EARLIEST), LATEST)


Bound = Annotated[GivenInstant, AfterValidator(_within_all)]
"""A bound of a time; it may lie in a year that no server keeps."""

# After a validator, pydantic writes bounds into a schema under names that JSON Schema does not know.
Count = Annotated[int, Field(ge=0, le=MOST_INTEGER), BeforeValidator(_no_flag)]
Duration = Annotated[float, Field(ge=0, le=TEN_YEARS, allow_inf_nan=False), BeforeValidator(_no_flag)]
WorkerWord = Annotated[Text, AfterValidator(_id_or_name)]
"""A worker's id, or its name."""

TagWord = Annotated[str, Field(min_length=1, max_length=1300)]
"""`path` or `path=value`: `region.name=eu` reaches into `{"region": {"name": "eu"}}`, and into arrays."""

# With an empty list nothing would be asked for, so that all tasks match.
_SEVERAL = (BeforeValidator(_several), Field(min_length=1, max_length=20))


TIMES = {"created": "created_at", "started": "started_at", "ended": "completed_at"}
"""The fields of a task with the times that a filter may bound."""


def has_error(wanted: str, error: str | None, reason: str | None) -> bool:
    """Return whether a task's error is of a class, the beginning of its message, or has this reason."""
    return wanted in {error, reason} or (error or "").startswith(f"{wanted}:")


class TaskFilter(Request):
    """Which tasks a list, a window or a bulk action selects; all the given fields must hold."""

    room: Room | None = None
    status: Annotated[list[Status], BeforeValidator(_several), Field(min_length=1)] | None = None
    job: Text | None = None
    target: Text | None = None
    worker: WorkerWord | None = None
    tag: Annotated[list[TagWord], *_SEVERAL, PlainSerializer(_as_one)] | None = None
    """Tags that the task must have, all of them."""
    id: IdBeginning | None = None
    """The beginning of the id, or all of it."""
    flow: IdBeginning | None = None
    """The id of the task's flow, or its beginning."""
    text: Text | None = None
    """Part of the id, the job's name, the payload or the error."""
    created_from: Bound | None = None
    created_until: Bound | None = None
    """`…_until` is exclusive, `…_from` inclusive."""
    started_from: Bound | None = None
    started_until: Bound | None = None
    """When its last run was started."""
    ended_from: Bound | None = None
    ended_until: Bound | None = None
    least_tries: Count | None = None
    most_tries: Count | None = None
    """How often the task was claimed."""
    least_seconds: Duration | None = None
    most_seconds: Duration | None = None
    """Seconds from the last start to the end, for tasks that have both."""
    error: Text | None = None
    """The class of the error, such as `ValueError`, or the reason, such as `timeout`."""
    failure: Annotated[str, StringConstraints(pattern=FAILURE_ID, to_lower=True)] | None = None
    """The group of failures (`FailureGroup.id`) that the last run belongs to."""
    not_room: Annotated[list[Room], *_SEVERAL] | None = None
    """Rooms that the task must not be in; all fields named `not_…` exclude in this way."""
    not_job: Annotated[list[Text], *_SEVERAL] | None = None
    not_target: Annotated[list[Text], *_SEVERAL] | None = None
    not_worker: Annotated[list[WorkerWord], *_SEVERAL] | None = None
    not_tag: Annotated[list[TagWord], *_SEVERAL] | None = None
    not_error: Annotated[list[Text], *_SEVERAL] | None = None

    @property
    def named_workers(self) -> list[str]:
        """The workers that the filter names, by id or by name."""
        return [*([] if self.worker is None else [self.worker]), *(self.not_worker or ())]


SEVERAL = frozenset(name for name in TaskFilter.model_fields if name == "tag" or name.startswith("not_"))
"""Fields that may occur in a query more than once; all their values must match."""

Order = Literal["position", "newest", "oldest", "updated"]
"""How lists of tasks are ordered; docs/protocol.md says by which fields."""

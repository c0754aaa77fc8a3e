"""Bulk actions: one verb or edit for many tasks, the tasks that match at one moment, and the outcome for each."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from treadle.wire.edits import TaskEdit
from treadle.wire.fields import MOST_OF_REQUEST, GivenJson, Instant, LongText, Model, Request, Version
from treadle.wire.filters import Order, TaskFilter
from treadle.wire.ids import Uuid
from treadle.wire.status import Ended, Status
from treadle.wire.transitions import Action


class Freeze(Request):
    """Asks which tasks match a filter at this moment."""

    filter: TaskFilter = Field(default_factory=TaskFilter)
    order: Order = "position"
    limit: Annotated[int, Field(strict=True, ge=1, le=MOST_OF_REQUEST)] = MOST_OF_REQUEST


class FrozenTask(Model):
    """A task as it was at the moment of the request."""

    id: str
    version: int
    status: Status
    job_name: str


class Frozen(Model):
    """The tasks that matched a filter at one moment, for a bulk action on exactly these."""

    items: list[FrozenTask]
    is_capped: bool
    """Whether more match than are listed."""
    at: Instant


class BulkAction(Request):
    """One verb for many tasks: those named, or those that match a filter at this moment."""

    action: Action
    ids: list[Uuid] | None = Field(default=None, max_length=MOST_OF_REQUEST)
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
            raise ValueError(f"if_versions: {min(others)} is not among the ids")
        return self


class BulkEdit(Request):
    """Edits of many tasks, each with its own changes, as an undo needs."""

    edits: list[TaskEdit] = Field(min_length=1, max_length=MOST_OF_REQUEST)

    @model_validator(mode="after")
    def _once_each(self) -> Self:
        if len({edit.id for edit in self.edits}) < len(self.edits):
            raise ValueError("edits: contains an id twice")
        return self


class BulkProblem(Model):
    """Why nothing was done to one of the tasks."""

    id: str
    outcome: Literal["refused", "changed", "missing", "untried"] = "refused"
    """`refused` by the rules, `changed` since the version given, `missing`, or `untried` as the server gave up."""
    type: str
    detail: str
    version: int | None = None
    """The task's version, read after the outcome was known; null if the task is missing or can't be read."""
    status: Status | None = None
    """The task's status, likewise."""


class BulkResult(Model):
    """The outcome for each task: changed ones are in `versions`, all others in `problems`."""

    action: Action | Literal["edit"]
    matched: int
    changed: int
    versions: dict[str, int] = Field(default_factory=dict)
    """The new version of each changed task, for an undo that acts only on tasks that nobody has touched since."""
    problems: list[BulkProblem] = Field(default_factory=list)
    problems_are_capped: bool = False
    """Whether there are more problems than are listed; only for a filter, for which 1,000 are listed."""

"""Bulk actions: one verb or edit for many tasks, those that are meant at one moment, and what became of each."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from treadle.wire.edits import TaskEdit
from treadle.wire.fields import MOST_OF_REQUEST, GivenJson, Instant, LongText, Model, Request, Version
from treadle.wire.filters import Order, TaskFilter
from treadle.wire.ids import Uuid
from treadle.wire.status import Ended, Status
from treadle.wire.transitions import Action


class Freeze(Request):
    """Asks which tasks a filter means at this moment."""

    filter: TaskFilter = Field(default_factory=TaskFilter)
    order: Order = "position"
    limit: Annotated[int, Field(strict=True, ge=1, le=MOST_OF_REQUEST)] = MOST_OF_REQUEST


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
            raise ValueError(f"if_versions: {min(others)} is none of the ids")
        return self


class BulkEdit(Request):
    """Edits of many tasks, each with its own changes: an undo gives each back what it had."""

    edits: list[TaskEdit] = Field(min_length=1, max_length=MOST_OF_REQUEST)

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

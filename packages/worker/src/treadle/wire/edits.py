"""Edits of tasks that are not running, and changes of status, which are the same request over HTTP."""

from typing import Any, Self

from pydantic import model_validator

from treadle.wire.fields import Amount, GivenJson, GivenObject, GivenReason, LongText, RunNumber, Version
from treadle.wire.ids import Uuid
from treadle.wire.options import CLEARED, TaskTimes
from treadle.wire.status import Status


class Timed(TaskTimes):
    """A task with one due time: `delay` or `scheduled_at`."""

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if self.delay is not None and self.scheduled_at is not None:
            raise ValueError("give either delay or scheduled_at, not both")
        return self


_BOUND = frozenset({"depends_on", "arguments_from", "flow_id", "flow_name", "ref"})
"""The fields that tie a task to other tasks, which know of it since the submit and may have ended."""


class TaskChanges(Timed):
    """What an edit may change of a task that is not running: all that a submit gives but its id, dependencies and flow.

    Fields left out stay. Null clears what a task need not have (`CLEARED`); other fields may not be null.
    """

    payload: GivenObject | None = None
    checkpoint: GivenJson = None
    """The checkpoint that the next run gets; null drops it."""
    if_version: Version | None = None

    @model_validator(mode="before")
    @classmethod
    def _unbound(cls, given: Any) -> Any:
        if isinstance(given, dict) and (bound := sorted(_BOUND & given.keys())):
            raise ValueError(f"{', '.join(bound)}: fixed by the submit; cancel the task, and submit another one")
        return given

    @model_validator(mode="after")
    def _not_null(self) -> Self:
        of_edit = self.model_fields_set & EDITABLE - CLEARED
        if nulls := sorted(name for name in of_edit if getattr(self, name) is None):
            raise ValueError(f"{', '.join(nulls)}: may not be null; leave it out to keep its value")
        return self


EDITABLE = frozenset(TaskChanges.model_fields) - {"checkpoint", "if_version"}
"""Fields that only an edit may change; a checkpoint may come with a status too."""

_CHANGES = ", ".join(name for name in TaskChanges.model_fields if name != "if_version")


class TaskPatch(TaskChanges):
    """A status, by the worker or as the cancel verb; or an edit of a task that does not run yet."""

    status: Status | None = None
    run_id: RunNumber | None = None
    result: GivenJson = None
    error: LongText | None = None
    traceback: LongText | None = None
    reason: GivenReason | None = None
    usage: Amount | None = None
    checkpoint: GivenJson = None
    """With a status: where the run stopped. In an edit: what the next run gets; null drops it."""

    @model_validator(mode="after")
    def _status_or_edit(self) -> Self:
        given = self.model_fields_set - {"if_version"}
        if not given:
            raise ValueError(f"give a status or something to change: {_CHANGES}")
        if "status" in given and given & EDITABLE:
            raise ValueError("send a change of status and an edit as two requests")
        if "status" not in given and (others := given - EDITABLE - {"checkpoint"}):
            raise ValueError(f"{', '.join(sorted(others))}: only allowed with a status")
        if "status" in given and self.status is None:
            raise ValueError("status must not be null")
        return self


class TaskEdit(TaskChanges):
    """An edit of one of many tasks."""

    id: Uuid

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set - {"id", "if_version"}:
            raise ValueError(f"give something to change: {_CHANGES}")
        return self

"""Removal of ended tasks, on request."""

from pydantic import Field, field_validator

from treadle.wire.fields import Flag, Model, Request, Seconds
from treadle.wire.status import TERMINAL, Status


class Prune(Request):
    """Removes ended tasks with their runs, logs and artifacts, or counts what would be removed: `POST /v1/prune`."""

    older_than: Seconds | None = None
    """Remove tasks that ended more than so many seconds ago; left out, the server's settings decide by status."""
    status: list[Status] | None = Field(default=None, min_length=1)
    """Any of completed, failed, cancelled; left out, all of them, or those that the settings name."""
    dry_run: Flag = False
    """Only count what would be removed."""

    @field_validator("status")
    @classmethod
    def _ended(cls, value: list[Status] | None) -> list[Status] | None:
        if wrong := [status for status in value or () if status not in TERMINAL]:
            raise ValueError(f"{', '.join(wrong)}: only ended tasks can be removed: completed, failed, cancelled")
        return value


class PruneGroup(Model):
    """Ended tasks of one job and status."""

    job: str
    status: Status
    tasks: int


class PruneAnswer(Model):
    """What was removed, or would be."""

    dry_run: bool
    tasks: int
    groups: list[PruneGroup]
    done: bool = True
    """False if there may be more: a request stops after some seconds; repeat it."""

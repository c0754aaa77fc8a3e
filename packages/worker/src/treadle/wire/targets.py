"""Targets: named resources that one task uses at a time, and the tasks that hold them."""

from typing import Literal

from pydantic import Field

from treadle.wire.fields import Instant, Model
from treadle.wire.status import Status

TargetCause = Literal["claimed", "running", "paused", "failed", "retry", "stopping"]
"""Why a task holds its target.

`retry`: it ran and waits for its next try. `stopping`: that run is over (cancelled, paused or lost), but its code may
still be running; the hold ends when the worker confirms that it has stopped, or with the lease.
"""


class TargetHolder(Model):
    """A task that keeps the others of its target waiting, and why."""

    task_id: str
    job_name: str
    status: Status
    cause: TargetCause
    run_id: int | None = None
    """The run that is open, was the last, or is stopping; null when there was none."""
    worker_id: str | None = None
    """The worker that has that run, or had it."""
    since: Instant
    """When the cause began; for `paused` and `retry`: the task's last change."""
    until: Instant | None = None
    """When the cause ends by itself: the end of the lease, or the next try; null when someone must act."""


class TargetItem(Model):
    """A target: free, or held by tasks."""

    id: str
    room_id: str
    name: str
    held: bool
    cause: TargetCause | None = None
    """The cause of the first holder; null if the target is free."""
    since: Instant | None = None
    until: Instant | None = None
    """When the last of its holds ends by itself; null if one of them does not, or if the target is free."""
    holders: list[TargetHolder] = Field(default_factory=list)
    """The tasks that hold it, live runs first."""
    waiting: int = 0
    """How many pending tasks wait for it."""
    next_task_id: str | None = None
    """The id of the pending task that gets it next."""

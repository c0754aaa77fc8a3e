"""Failures by what failed and where, as the server groups them."""

from pydantic import Field

from treadle.wire.fields import Instant, Model


class FailureGroup(Model):
    """Runs that failed with the same type of error at the same place."""

    id: str
    """What `failure` in a filter names: its tasks, as long as their last run is of the group."""
    kind: str
    """The error's class, or the reason when there was none: `timeout`, `claim-expired`."""
    place: str
    """The last frame of its traceback that is no library's, `billing/charge.py in charge`; without one its job."""
    error: str | None = None
    """What the last one said."""
    task_id: str
    """The task of the last one."""
    jobs: list[str]
    """Of which jobs they were, ten at most."""
    runs: int
    """How many there were among those that were looked at."""
    first_seen_at: Instant
    last_seen_at: Instant
    per_minute: list[int]
    """How many in each minute of the last hour, the present one last."""
    failed: int = 0
    """Tasks that stand failed by it."""
    retrying: int = 0
    """Tasks that wait for another try after it."""


class FailureGroups(Model):
    """All of them, the one that was seen last first."""

    items: list[FailureGroup] = Field(default_factory=list)
    is_capped: bool = False
    """Whether more runs have failed than are looked at, the last 10,000."""


__all__ = ["FailureGroup", "FailureGroups"]

"""Failures grouped by what failed and where, as the server groups them."""

from pydantic import Field

from treadle.wire.fields import Instant, Model


class FailureGroup(Model):
    """Runs that failed with the same type of error at the same place."""

    id: str
    """The value of `failure` in a filter: it selects tasks whose last run belongs to the group."""
    kind: str
    """The error's class, or the reason if there was no error: `timeout`, `claim-expired`."""
    place: str
    """The last frame of the traceback outside libraries, such as `billing/charge.py in charge`; without one, the
    job."""
    error: str | None = None
    """The message of the last failure."""
    task_id: str
    """The task of the last failure."""
    jobs: list[str]
    """The jobs of the runs, at most ten."""
    runs: int
    """How many of the runs looked at belong to the group."""
    first_seen_at: Instant
    last_seen_at: Instant
    per_minute: list[int]
    """How many failed in each minute of the last hour, the present one last."""
    failed: int = 0
    """Tasks that are failed because of it."""
    retrying: int = 0
    """Tasks that wait for a retry after it."""


class FailureGroups(Model):
    """All groups, the one seen last first."""

    items: list[FailureGroup] = Field(default_factory=list)
    is_capped: bool = False
    """Whether more runs have failed than the last 10,000, which are looked at."""


__all__ = ["FailureGroup", "FailureGroups"]

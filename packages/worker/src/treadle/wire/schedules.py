"""Schedules: recurring tasks, by cron in a time zone or by an interval."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from treadle.wire.fields import (
    TEN_YEARS,
    Flag,
    GivenObject,
    Instant,
    JsonObject,
    Model,
    PositiveSeconds,
    Request,
    Text,
    Version,
)
from treadle.wire.options import TaskTraits
from treadle.wire.status import Status

Missed = Literal["late", "skip"]
"""What happens to ticks missed while no task could be created: one late run for all of them, or none."""


def is_schedule_name(text: str) -> bool:
    """Return whether a text is a valid schedule name; it is part of a URL's path, so it must not contain `/`."""
    return isinstance(text, str) and 0 < len(text) <= 255 and text.isprintable() and "/" not in text


Interval = Annotated[float, Field(strict=True, ge=1, le=TEN_YEARS, allow_inf_nan=False)]
"""Seconds between two ticks, at least one."""

Jitter = Annotated[float, Field(strict=True, ge=0, le=86_400, allow_inf_nan=False)]
"""The maximum random delay, in seconds, from a tick to the time its task is due."""

Zone = Annotated[str, Field(min_length=1, max_length=64)]
"""A time zone of the IANA database, such as Europe/Berlin."""


class ScheduleContent(TaskTraits):
    """The content of a schedule's tasks: all that a submit gives but the id, the time and the dependencies."""

    payload: GivenObject = Field(default_factory=dict)
    deadline: PositiveSeconds | None = None
    """Seconds from the tick to its task's deadline; for a task run by hand, seconds from then."""
    flow_name: Text | None = None
    """The name of the flow that each task starts, and adds to while it runs; left out, none is started."""
    cron: Text | None = None
    """Five fields (minute hour day-of-month month day-of-week), or six with the second first."""
    zone: Zone | None = None
    """The time zone of the cron expression; UTC if left out."""
    interval: Interval | None = None
    jitter: Jitter = 0
    missed: Missed = "late"


class SchedulePut(ScheduleContent):
    """Creates or replaces a schedule: `PUT /v1/rooms/{room}/schedules/{name}`.

    If the timing stays the same, the next tick does too.
    """

    job: Text
    paused: Flag | None = None
    """Left out, a new schedule is not paused, and an existing one stays as it is."""
    content_hash: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """A hash by which the registering code identifies its definition. If it is the same as last time, nothing changes,
    even if people have edited the schedule since."""
    if_version: Version | None = None

    @model_validator(mode="after")
    def _one_timing(self) -> Self:
        _check_timing(self.cron, self.zone, self.interval)
        if self.deadline is not None and self.deadline <= self.jitter:
            raise ValueError("deadline: must be longer than the jitter, or the task might never run")
        return self


class SchedulePatch(Request):
    """Changes parts of a schedule. Fields left out stay; an option set to null is left to the job again."""

    paused: Flag | None = None
    payload: GivenObject | None = None
    options: dict[Text, Any] | None = None
    """The other options of its tasks, each with its new value; `deadline` in seconds from the tick."""
    cron: Text | None = None
    zone: Zone | None = None
    interval: Interval | None = None
    jitter: Jitter | None = None
    missed: Missed | None = None
    if_version: Version | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        given = self.model_fields_set - {"if_version"}
        if not given:
            raise ValueError(f"give something to change: {_CHANGES}")
        if nulls := sorted(name for name in given - {"zone"} if getattr(self, name) is None):
            raise ValueError(f"{', '.join(nulls)}: may not be null; leave it out to keep its value")
        if self.interval is not None and (self.cron is not None or self.zone is not None):
            raise ValueError("give cron (with a zone) or interval, not both")
        return self


_CHANGES = "paused, cron, zone, interval, jitter, missed, payload, options"


def _check_timing(cron: str | None, zone: str | None, interval: float | None) -> None:
    if (cron is None) == (interval is None):
        raise ValueError("give either cron or interval: cron as in '*/5 * * * *', interval in seconds")
    if zone is not None and cron is None:
        raise ValueError("zone: only allowed with cron; an interval is the same in every zone")


class ScheduleItem(Model):
    """A schedule, with its next tick and its last task."""

    id: str
    room_id: str
    name: str
    job_name: str
    cron: str | None = None
    zone: str | None = None
    interval: float | None = None
    jitter: float = 0
    missed: Missed = "late"
    paused: bool = False
    payload: JsonObject = Field(default_factory=dict)
    options: JsonObject = Field(default_factory=dict)
    """The other options of its tasks; `deadline` in seconds from the tick."""
    next_at: Instant | None = None
    """The next tick; null while paused. In the past while the task of an earlier tick is still open."""
    last_at: Instant | None = None
    """The last tick that created a task, or the last time it was run by hand."""
    last_task_id: str | None = None
    last_status: Status | None = None
    """The status of that task; null if there is none, or no longer."""
    skipped_at: Instant | None = None
    """The last tick that created no task: an open task held the unique key, one of its limits could not take it, or its
    time zone was unknown."""
    skipped_for: str | None = None
    """The id of the task that held the key."""
    skipped_why: str | None = None
    """What was wrong with the limits (one is gone, is full and rejects, or is too small for the task's weight), or with
    the time zone."""
    stands_still: str | None = None
    """Why no tick creates a task although it is not paused: the owner has no valid token."""
    owner: str
    content_hash: str | None = None
    created_at: Instant
    version: int = 1
    """Counts changes, not ticks."""
    left_out: list[Literal["payload", "options"]] | None = None
    """Large fields that are left empty while schedules are watched; a schedule fetched by name has them."""

    @property
    def skips(self) -> bool:
        """Whether the last tick created no task."""
        return self.skipped_at is not None and (self.last_at is None or self.last_at < self.skipped_at)

    @property
    def skipped_because(self) -> str:
        """Why the tick at `skipped_at` created no task, in words."""
        return self.skipped_why or f"task {self.skipped_for} held the key"

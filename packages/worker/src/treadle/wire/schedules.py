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
"""What becomes of ticks that came while no instance could be made: one late run for all of them, or none."""


def is_schedule_name(text: str) -> bool:
    """Return whether a schedule may be called so: it stands in a path, which a `/` would part."""
    return isinstance(text, str) and 0 < len(text) <= 255 and text.isprintable() and "/" not in text


Interval = Annotated[float, Field(strict=True, ge=1, le=TEN_YEARS, allow_inf_nan=False)]
"""Seconds between two ticks, one at least."""

Jitter = Annotated[float, Field(strict=True, ge=0, le=86_400, allow_inf_nan=False)]
"""Seconds by which a task is due later than its tick at most, at random."""

Zone = Annotated[str, Field(min_length=1, max_length=64)]
"""A time zone of the IANA database, as Europe/Berlin."""


class ScheduleContent(TaskTraits):
    """What a schedule's tasks are like: all that a submit says of one but its id, its time and what it waits for."""

    payload: GivenObject = Field(default_factory=dict)
    deadline: PositiveSeconds | None = None
    """Seconds from the tick past which its task is of no use; of one that is run by hand, from then."""
    flow_name: Text | None = None
    """What the flow is called that each of its tasks begins, and adds to while it runs; left out, it begins none."""
    cron: Text | None = None
    """Five fields (minute hour day-of-month month day-of-week), or six with the second first."""
    zone: Zone | None = None
    """Of a cron expression; UTC when it is left out."""
    interval: Interval | None = None
    jitter: Jitter = 0
    missed: Missed = "late"


class SchedulePut(ScheduleContent):
    """Makes or replaces a schedule: `PUT /v1/rooms/{room}/schedules/{name}`.

    What stays the same keeps its next tick.
    """

    job: Text
    paused: Flag | None = None
    """Left out, a new one is not paused, and one that is there stays as it is."""
    content_hash: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """What the code that registers it says of itself. The same as the last time: nothing is changed, also when people
    have changed the schedule since."""
    if_version: Version | None = None

    @model_validator(mode="after")
    def _one_timing(self) -> Self:
        _check_timing(self.cron, self.zone, self.interval)
        if self.deadline is not None and self.deadline <= self.jitter:
            raise ValueError("deadline: lies before the jitter is over, so that the task could never run")
        return self


class SchedulePatch(Request):
    """Changes parts of a schedule; what is left out stays, an option that is null is left to the job again."""

    paused: Flag | None = None
    payload: GivenObject | None = None
    options: dict[Text, Any] | None = None
    """Whatever else a submit says of a task, each with its new value; `deadline` in seconds from the tick."""
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
            raise ValueError(f"give what is to be changed: {_CHANGES}")
        if nulls := sorted(name for name in given - {"zone"} if getattr(self, name) is None):
            raise ValueError(f"{', '.join(nulls)}: may not be null; leave it out to keep what it is")
        if self.interval is not None and (self.cron is not None or self.zone is not None):
            raise ValueError("give cron (with a zone) or interval, not both")
        return self


_CHANGES = "paused, cron, zone, interval, jitter, missed, payload, options"


def _check_timing(cron: str | None, zone: str | None, interval: float | None) -> None:
    if (cron is None) == (interval is None):
        raise ValueError("give cron or interval, one of them: cron as in '*/5 * * * *', interval in seconds")
    if zone is not None and cron is None:
        raise ValueError("zone: only with cron; an interval is the same in every zone")


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
    """Whatever else a submit says of a task; `deadline` in seconds from the tick."""
    next_at: Instant | None = None
    """The next tick; null while it is paused. Past while the task of an earlier tick is still open."""
    last_at: Instant | None = None
    """The last tick for which a task was made, or when it was last run by hand."""
    last_task_id: str | None = None
    last_status: Status | None = None
    """Of that task; null when there is none, or not any more."""
    skipped_at: Instant | None = None
    """The last tick that made no task: an open one held its unique key, its limits could not be counted against, or its
    zone was not known."""
    skipped_for: str | None = None
    """The task that held the key."""
    skipped_why: str | None = None
    """What was wrong with its limits (one that is gone, is full and rejects, or never takes a task of this weight), or
    with its zone."""
    stands_still: str | None = None
    """Why no tick makes a task though it is not paused: its owner has no valid token."""
    owner: str
    content_hash: str | None = None
    created_at: Instant
    version: int = 1
    """Counts changes, not ticks."""
    left_out: list[Literal["payload", "options"]] | None = None
    """What is empty where schedules are watched, for it is large: the schedule got by itself has it."""

    @property
    def skips(self) -> bool:
        """Whether the last tick that came made no task."""
        return self.skipped_at is not None and (self.last_at is None or self.last_at < self.skipped_at)

    @property
    def skipped_because(self) -> str:
        """Why the tick at `skipped_at` made no task, in words."""
        return self.skipped_why or f"task {self.skipped_for} held the key"

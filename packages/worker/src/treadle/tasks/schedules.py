"""When a task submits itself: `@task(schedule=Cron("*/5 * * * *"))` or `@task(schedule=Every(30))`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias, get_args

from pydantic import ValidationError

from treadle.client.options import Options, duration, seconds, template
from treadle.errors import DefinitionError, InvalidArguments
from treadle.values import brief
from treadle.wire.reasons import reason
from treadle.wire.schedules import Missed, SchedulePut, is_schedule_name


@dataclass(frozen=True, kw_only=True)
class _ScheduleFields:
    """The fields of both kinds of schedule."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that the task is called with."""
    jitter: float | timedelta = 0
    """How much later than its tick a task may be due, at random."""
    missed: Missed = "late"
    """What happens to missed ticks: `late`, one late run for all of them, or `skip`, none."""
    name: str | None = None
    """The schedule's name in the job's room; by default the job's `category:name`."""
    options: Options | None = None
    """How each of its tasks is run; they can't set an id, a delay or a time."""
    deadline: float | timedelta | None = None
    """How long after its tick a task is still of use."""

    def __post_init__(self) -> None:
        if not isinstance(self.arguments, Mapping):
            raise DefinitionError(
                f"arguments={brief(self.arguments)}: a schedule's arguments must be a dict of the task's arguments by"
                " name"
            )
        if self.missed not in get_args(Missed):
            raise DefinitionError(f"missed={self.missed!r}: a schedule's missed must be 'late' or 'skip'")
        if (jitter := duration(self.jitter)) is None or jitter < 0:
            raise DefinitionError(f"jitter={brief(self.jitter)}: a schedule's jitter must be a duration of 0 or more")
        if self.name is not None and not is_schedule_name(self.name):
            raise DefinitionError(
                f"name={self.name!r}: a schedule's name has 1 to 255 characters, no '/' and no control characters"
            )
        try:
            template(self.options, self.deadline)
        except InvalidArguments as error:
            raise DefinitionError(str(error)) from None

    def timing(self) -> dict[str, Any]:
        """Return the schedule's times, as they are sent."""
        raise NotImplementedError

    def _check(self) -> None:
        """Raise `DefinitionError` for values that every server refuses."""
        said = {**self.timing(), **template(self.options, self.deadline)}
        try:
            SchedulePut.model_validate({"job": "any", "jitter": float(seconds(self.jitter) or 0), **said})
        except ValidationError as error:
            raise DefinitionError("; ".join(map(self._told, error.errors(include_url=False)))) from None

    def _told(self, found: Mapping[str, Any]) -> str:
        if not found["loc"]:
            return f"a schedule's {reason(found)}"
        name = "tz" if found["loc"] == ("zone",) else str(found["loc"][0])
        return f"{name}={brief(getattr(self, name, found['input']))} of a schedule: {reason(found)}"


@dataclass(frozen=True)
class Cron(_ScheduleFields):
    """Ticks by a cron expression in the time zone `tz`: five fields, or six with the second first.

    Only the server parses the expression, and refuses an invalid one when the worker starts. Raises `DefinitionError`
    for another number of fields, and for a `tz` that is missing in this machine's time zone data, if it has any.
    """

    expression: str
    """Minute, hour, day of the month, month and day of the week; optionally preceded by the second."""
    tz: str = "UTC"
    """The time zone's name in the IANA database, such as `Europe/Berlin`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.expression, str) or len(self.expression.split()) not in {5, 6}:
            raise DefinitionError(
                f"Cron({self.expression!r}) has neither five fields (minute hour day-of-month month day-of-week) nor"
                " six with the second first"
            )
        self._check()
        if not _may_be_zone(self.tz):
            raise DefinitionError(
                f"tz={self.tz!r} is not a time zone that this machine knows: write one such as Europe/Berlin, or"
                " UTC; `pip install -U tzdata` adds newer ones"
            )

    def timing(self) -> dict[str, Any]:
        """Return the schedule's times, as they are sent."""
        return {"cron": self.expression, "zone": self.tz}


def _may_be_zone(name: str) -> bool:
    """Return whether a time zone is known here. If none are, as on Windows and in slim containers, any may exist."""
    if name == "UTC":
        return True
    from zoneinfo import ZoneInfo, available_timezones

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return not available_timezones()
    return True


@dataclass(frozen=True)
class Every(_ScheduleFields):
    """Ticks every `interval` seconds (or a timedelta), at least one second; the phase is kept.

    Raises `DefinitionError` for an interval that is shorter, is longer than ten years, or is not a duration.
    """

    interval: float | timedelta

    def __post_init__(self) -> None:
        super().__post_init__()
        if (interval := duration(self.interval)) is None:
            raise DefinitionError(f"Every({brief(self.interval)}) is not a duration: write seconds, or a timedelta")
        if interval < 1:
            raise DefinitionError(f"Every({brief(self.interval)}) is shorter than one second")
        self._check()

    def timing(self) -> dict[str, Any]:
        """Return the schedule's times, as they are sent."""
        return {"interval": float(seconds(self.interval) or 0)}


Schedule: TypeAlias = Cron | Every


def checked(function_name: str, schedule: object) -> "Schedule | None":
    """Return a decorator's schedule. Raises `DefinitionError` for anything but a schedule."""
    if schedule is None or isinstance(schedule, Cron | Every):
        return schedule
    raise DefinitionError(f"@task of {function_name}: schedule={schedule!r} is neither Cron(…) nor Every(…)")

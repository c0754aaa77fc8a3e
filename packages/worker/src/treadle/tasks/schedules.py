"""When a task is put in by itself: `@task(schedule=Cron("*/5 * * * *"))` or `@task(schedule=Every(30))`."""

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
    """What both kinds of schedule say."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What the task is called with."""
    jitter: float | timedelta = 0
    """By how much later than its tick a task is due at most, at random."""
    missed: Missed = "late"
    """What becomes of ticks that were missed: one late run for all of them, or `skip`, none."""
    name: str | None = None
    """The schedule's name in the job's room; `category:name` of the job when it is left out."""
    options: Options | None = None
    """How each of its tasks is run; they have no id, delay or time of their own."""
    deadline: float | timedelta | None = None
    """How long after its tick a task is of use."""

    def __post_init__(self) -> None:
        if not isinstance(self.arguments, Mapping):
            raise DefinitionError(
                f"arguments={brief(self.arguments)} of a schedule is no dict of what the task is called with, by name"
            )
        if self.missed not in get_args(Missed):
            raise DefinitionError(f"missed={self.missed!r} of a schedule must be 'late' or 'skip'")
        if (jitter := duration(self.jitter)) is None or jitter < 0:
            raise DefinitionError(f"jitter={brief(self.jitter)} of a schedule is a duration, 0 or more")
        if self.name is not None and not is_schedule_name(self.name):
            raise DefinitionError(
                f"name={self.name!r} of a schedule has 1 to 255 characters, no '/' and no control characters"
            )
        try:
            template(self.options, self.deadline)
        except InvalidArguments as error:
            raise DefinitionError(str(error)) from None

    def timing(self) -> dict[str, Any]:
        """Return when, as it goes over the wire."""
        raise NotImplementedError

    def _check(self) -> None:
        """Raise `DefinitionError` for what every server refuses."""
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

    The server knows the expressions, and refuses what is none when the worker starts. Raises `DefinitionError` for
    another number of fields, and for a `tz` that this machine's time zones, where it has any, do not hold.
    """

    expression: str
    """Minute, hour, day of the month, month and day of the week; the second before them where it counts."""
    tz: str = "UTC"
    """The time zone's name in the IANA database, as in `Europe/Berlin`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.expression, str) or len(self.expression.split()) not in {5, 6}:
            raise DefinitionError(
                f"Cron({self.expression!r}) has not five fields (minute hour day-of-month month day-of-week), nor six"
                " with the second first"
            )
        self._check()
        if not _may_be_zone(self.tz):
            raise DefinitionError(
                f"tz={self.tz!r} of a schedule is no time zone that this machine knows: write one as Europe/Berlin, or"
                " UTC; one that is newer than its time zones comes with `pip install -U tzdata`"
            )

    def timing(self) -> dict[str, Any]:
        """Return when, as it goes over the wire."""
        return {"cron": self.expression, "zone": self.tz}


def _may_be_zone(name: str) -> bool:
    """Return whether a time zone is known, or none is at all: Windows and slim containers have none by themselves."""
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
    """Ticks every `interval` seconds (or a timedelta), one second at least; the phase is kept.

    Raises `DefinitionError` for a shorter one, one of more than ten years, and for what is no duration.
    """

    interval: float | timedelta

    def __post_init__(self) -> None:
        super().__post_init__()
        if (interval := duration(self.interval)) is None:
            raise DefinitionError(f"Every({brief(self.interval)}) is no duration: write seconds, or a timedelta")
        if interval < 1:
            raise DefinitionError(f"Every({brief(self.interval)}) is shorter than one second")
        self._check()

    def timing(self) -> dict[str, Any]:
        """Return when, as it goes over the wire."""
        return {"interval": float(seconds(self.interval) or 0)}


Schedule: TypeAlias = Cron | Every


def checked(function_name: str, schedule: object) -> "Schedule | None":
    """Return a decorator's schedule. Raises `DefinitionError` when it is none."""
    if schedule is None or isinstance(schedule, Cron | Every):
        return schedule
    raise DefinitionError(f"@task of {function_name}: schedule={schedule!r} is neither Cron(…) nor Every(…)")

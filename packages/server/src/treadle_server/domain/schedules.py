"""Schedules and their ticks, by cron in a time zone or by an interval that keeps its phase. Pure functions."""

from bisect import bisect_left
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from treadle.wire.amounts import counted
from treadle.wire.ids import TaskId
from treadle_server.errors import ValidationFailed

MISSED_AFTER = timedelta(seconds=60)
"""How late a tick must be found to count as missed, even if the following one has not come yet."""

_SECOND = timedelta(seconds=1)
_NEVER = datetime.max.replace(tzinfo=UTC)

_FIELDS = {
    "second": "0-59",
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, L or LW",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 or SUN-SAT, 5L, MON#2",
}
"""The fields of a cron expression with seconds, and the values that each may have."""


@dataclass(slots=True)
class Content:
    """The content of a schedule. `payload` and `template` (the options of its tasks) are JSON text."""

    payload: str
    schema_version: int
    """The version of the job's schema that the payload was checked against; its tasks keep it."""
    template: str
    cron: str | None
    zone: str | None
    interval_seconds: float | None
    jitter_seconds: float
    missed: str
    """What to do about missed ticks: `late` makes one late task for all of them, `skip` none."""


@dataclass(slots=True)
class Schedule(Content):
    """A template that makes tasks: its content, its owner, and the state of its ticks."""

    id: str
    room: str
    name: str
    job_num: int
    paused: bool
    next_at: datetime | None
    """The next tick; None if there are no more. While it is paused, this keeps the phase of an interval."""
    last_at: datetime | None
    last_task_id: TaskId | None
    """The last instance. Only this one may be open, and while it is, no other is made."""
    owner: str
    created_at: datetime
    content_hash: str | None
    """The hash that the registering code last gave of its declaration."""
    deleted_at: datetime | None = None
    version: int = 1
    """Counts changes by people and code, but not ticks."""
    skipped_at: datetime | None = None
    """The last tick that made no task because an open task held its unique key, its limits forbade it, or its zone was
    unknown."""
    skipped_for: TaskId | None = None
    """The task that held the unique key."""
    skipped_why: str | None = None
    """What was wrong with its limits or its zone."""

    def is_due(self, now: datetime) -> bool:
        """Return whether its tick has come."""
        return not self.paused and self.deleted_at is None and self.next_at is not None and self.next_at <= now

    def tick_after(self, after: datetime) -> datetime | None:
        """Return the first tick later than `after`; an interval keeps the phase of `next_at`."""
        if self.cron is not None:
            return cron_tick(self.cron, self.zone, after)
        assert self.interval_seconds is not None
        interval = timedelta(seconds=self.interval_seconds)
        return after + interval if self.next_at is None else interval_tick(self.next_at, interval, after)

    def advance(self, now: datetime) -> None:
        """Move `next_at` to the tick after it, or to the first one after `now` if that is later."""
        self.next_at = self.tick_after(now if self.next_at is None else max(now, self.next_at))

    def last_tick(self, now: datetime) -> datetime:
        """Return the last tick up to `now`; the schedule must be due, and all ticks up to this one become one task."""
        first = self.next_at
        assert first is not None
        if self.interval_seconds is not None:
            interval = timedelta(seconds=self.interval_seconds)
            return interval_tick(first, interval, now) - interval
        # Mostly ticks are regular, and the last one comes within the first interval before now.
        if (following := self.tick_after(first)) is None or following > now:
            return first
        if (guess := self.tick_after(max(first, now - (following - first)))) is not None and guess <= now:
            first = guess
            if (self.tick_after(first) or _NEVER) > now:
                return first
        # The last tick is the first second after which the following tick is in the future; cron has whole seconds.
        seconds = range((now - first) // _SECOND + 1)
        return first + _SECOND * bisect_left(
            seconds, True, key=lambda second: (self.tick_after(first + _SECOND * second) or _NEVER) > now
        )

    def has_missed(self, now: datetime) -> bool:
        """Return whether the due tick was missed: it is found a minute late, or after the following one.

        A `next_at` that is not a tick stands for those that were skipped while the zone was unknown.
        """
        assert self.next_at is not None
        if self.skipped_why is not None and self.tick_after(self.next_at - timedelta.resolution) != self.next_at:
            return True
        following = self.tick_after(self.next_at)
        return now - self.next_at >= MISSED_AFTER or (following is not None and following <= now)


CONTENT_FIELDS = tuple(field.name for field in fields(Content))
SCHEDULE_FIELDS = tuple(field.name for field in fields(Schedule))


def cron_tick(expression: str, zone: str | None, after: datetime) -> datetime | None:
    """Return the first tick of a cron expression after `after`, or None if there is none within 50 years.

    Changes of daylight saving time are handled as in Debian's cron: a tick in the hour that is skipped comes at its
    end, and one in the hour that is repeated comes the first time; with `*` for the minute or the hour, ticks follow
    elapsed time.
    Raises `ValidationFailed` for an invalid expression or zone.
    """
    place, after = zone_of(zone), after.astimezone(UTC)
    wall = _wall(after, place)
    try:
        if not any(field.startswith("*") for field in expression.split()[-5:-3]):
            firsts = (_first_instant(due, place) for due in CronSim(expression, wall))
            return next((tick for tick in firsts if tick > after), None)
        found = [_tick_as_time_passes(expression, place, wall, after)]
        if (turn := _turned_back(after, place)) is not None:
            found.append(_tick_as_time_passes(expression, place, _wall(turn, place) - _SECOND, turn - _SECOND))
        return min(filter(None, found), default=None)
    except CronSimError as error:
        raise _no_cron(expression, str(error)) from None


def _tick_as_time_passes(expression: str, place: tzinfo, wall: datetime, after: datetime) -> datetime | None:
    """Return the first instant after `after` at which the clocks show one of the expression's times after `wall`."""
    ticks = (tick for due in CronSim(expression, wall) for tick in _instants(due, place))
    return next((tick for tick in ticks if tick > after), None)


def _turned_back(after: datetime, place: tzinfo) -> datetime | None:
    """Return when the clocks of a place go back so that they show the present time again, or None if they don't."""
    again = _instants(_wall(after, place), place)[-1]
    if again == after:
        return None
    begin, offset = after.replace(microsecond=0), after.astimezone(place).utcoffset()
    seconds = range((again - after) // _SECOND + 1)
    return begin + _SECOND * bisect_left(
        seconds, True, key=lambda second: (begin + _SECOND * second).astimezone(place).utcoffset() != offset
    )


def _wall(instant: datetime, place: tzinfo) -> datetime:
    """Return what the clocks of a place show at an instant."""
    return instant.astimezone(place).replace(tzinfo=None)


def _instants(wall: datetime, place: tzinfo) -> list[datetime]:
    """Return when the clocks of a place show this: twice in a repeated hour, never in a skipped one, otherwise once."""
    found = {wall.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(instant for instant in found if _wall(instant, place) == wall)


def _first_instant(wall: datetime, place: tzinfo) -> datetime:
    """Return when the clocks of a place first show this; if they skip it, return the end of the gap."""
    while not (instants := _instants(wall, place)):
        wall = wall.replace(second=0) + timedelta(minutes=1)
    return instants[0]


def interval_tick(phase: datetime, interval: timedelta, after: datetime) -> datetime:
    """Return the first instant after `after` that is a whole number of intervals before or after `phase`."""
    return phase + interval * ((after - phase) // interval + 1)


@lru_cache(maxsize=1024)
def zone_of(name: str | None) -> tzinfo:
    """Return the time zone of this name, UTC for None. Raises `ValidationFailed`."""
    if name is None or name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"{name[:64]!r} is not a time zone that the server knows; write one such as Europe/Berlin, or UTC"
        raise _refused("zone", f"{message}, or update the tzdata of its machine") from None


def first_tick(cron: str | None, zone: str | None, interval_seconds: float | None, now: datetime) -> datetime:
    """Return the first tick of a schedule that begins now.

    Raises `ValidationFailed` for an invalid expression or zone, and for an expression that never occurs.
    """
    if cron is None:
        assert interval_seconds is not None
        return now + timedelta(seconds=interval_seconds)
    tick = cron_tick(cron, zone, now)
    if tick is None:
        raise _refused("cron", f"{cron!r} never occurs in the next 50 years; check its day and month")
    return tick


def _no_cron(expression: str, why: str) -> ValidationFailed:
    parts = expression.split()
    names = list(_FIELDS)[6 - len(parts) :] if len(parts) in {5, 6} else []
    name = why.removeprefix("Bad ")
    if name not in names:
        five = "write five (minute hour day-of-month month day-of-week), or six with the second first"
        return _refused("cron", f"{expression[:80]!r} has {counted(len(parts), 'field')}; {five}")
    if name == "day-of-month" and _is_cron([*parts[:-2], "*", parts[-1]]):
        return _refused("cron", f"{expression[:80]!r} never occurs: month {parts[-2]} has no day {parts[-3]}")
    return _refused(
        "cron", f"{parts[names.index(name)]!r} of {expression[:80]!r} is not a valid {name}: {_FIELDS[name]}"
    )


def _is_cron(parts: list[str]) -> bool:
    try:
        CronSim(" ".join(parts), datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return True


def _refused(field: str, message: str) -> ValidationFailed:
    return ValidationFailed(f"{field}: {message}", errors=[{"loc": [field], "msg": message, "type": field}])

"""Schedules: when their ticks are, by cron in a time zone or by an interval whose phase is kept; pure."""

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
"""A tick that is found so long after its time was missed, also when the following one has not come yet."""

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
"""The fields of a cron expression with seconds, and what may stand in each."""


@dataclass(slots=True)
class Content:
    """What a schedule says. `payload` and `template` (the options of its tasks) are JSON text."""

    payload: str
    schema_version: int
    """The version of the job's schema that the payload was checked against; its tasks keep it."""
    template: str
    cron: str | None
    zone: str | None
    interval_seconds: float | None
    jitter_seconds: float
    missed: str
    """What becomes of ticks that were missed: `late`, one late run for all of them, or `skip`, none."""


@dataclass(slots=True)
class Schedule(Content):
    """A template that puts tasks in: what it says, whose it is, and where it is in its ticks."""

    id: str
    room: str
    name: str
    job_num: int
    paused: bool
    next_at: datetime | None
    """The next tick; None when there is none any more. While it is paused this keeps the phase of an interval."""
    last_at: datetime | None
    last_task_id: TaskId | None
    """The last instance. Only it may be open: as long as it is, no other is made."""
    owner: str
    created_at: datetime
    content_hash: str | None
    """What the code that registered it said of itself the last time."""
    deleted_at: datetime | None = None
    version: int = 1
    """Counts what people and code change, not the ticks."""
    skipped_at: datetime | None = None
    """The last tick that made no task: an open one held its unique key, its limits could not be counted against, or its
    zone was not known."""
    skipped_for: TaskId | None = None
    """The task that held the key."""
    skipped_why: str | None = None
    """What was wrong with its limits, or its zone."""

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
        """Let every tick until `now` be over."""
        self.next_at = self.tick_after(now if self.next_at is None else max(now, self.next_at))

    def last_tick(self, now: datetime) -> datetime:
        """Return the last tick until now; the schedule is due, and all that have come since become one task."""
        first = self.next_at
        assert first is not None
        if self.interval_seconds is not None:
            interval = timedelta(seconds=self.interval_seconds)
            return interval_tick(first, interval, now) - interval
        # That is from when on the tick which follows lies ahead: cron's are at whole seconds.
        seconds = range((now - first) // _SECOND + 1)
        return first + _SECOND * bisect_left(
            seconds, True, key=lambda second: (self.tick_after(first + _SECOND * second) or _NEVER) > now
        )

    def has_missed(self, now: datetime) -> bool:
        """Return whether the tick that is due was missed: found a minute late, or with the following one.

        What is due though it is no tick stands for those that were skipped while the zone was not known.
        """
        assert self.next_at is not None
        if self.skipped_why is not None and self.tick_after(self.next_at - timedelta.resolution) != self.next_at:
            return True
        following = self.tick_after(self.next_at)
        return now - self.next_at >= MISSED_AFTER or (following is not None and following <= now)


CONTENT_FIELDS = tuple(field.name for field in fields(Content))
SCHEDULE_FIELDS = tuple(field.name for field in fields(Schedule))


def cron_tick(expression: str, zone: str | None, after: datetime) -> datetime | None:
    """Return the first instant later than `after` that a cron expression means; None when none comes in 50 years.

    At the changes of daylight saving time it does as Debian's cron: what falls into the hour that is left out comes at
    its end, what falls into the hour that comes twice comes the first time; `*` in the minute or the hour follows the
    time that really passes.
    Raises `ValidationFailed` for what is no expression or no zone.
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
    """Return the first instant later than `after` of those at which the clocks show what comes next behind `wall`."""
    ticks = (tick for due in CronSim(expression, wall) for tick in _instants(due, place))
    return next((tick for tick in ticks if tick > after), None)


def _turned_back(after: datetime, place: tzinfo) -> datetime | None:
    """Return when the clocks of a place are put back, so that they show once more what they show now; None: never."""
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
    """Return when the clocks of a place show this: once, twice in an hour that comes twice, never in one left out."""
    found = {wall.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(instant for instant in found if _wall(instant, place) == wall)


def _first_instant(wall: datetime, place: tzinfo) -> datetime:
    """Return when the clocks of a place show this the first time; where they leave it out, the end of the gap."""
    while not (instants := _instants(wall, place)):
        wall = wall.replace(second=0) + timedelta(minutes=1)
    return instants[0]


def interval_tick(phase: datetime, interval: timedelta, after: datetime) -> datetime:
    """Return the first instant later than `after` that is whole intervals before or behind `phase`."""
    return phase + interval * ((after - phase) // interval + 1)


@lru_cache(maxsize=1024)
def zone_of(name: str | None) -> tzinfo:
    """Return the time zone of this name, UTC for None. Raises `ValidationFailed`."""
    if name is None or name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        said = f"{name[:64]!r} is not a time zone that the server knows; write one such as Europe/Berlin, or UTC"
        raise _refused("zone", f"{said}, or update the tzdata of its machine") from None


def first_tick(cron: str | None, zone: str | None, interval_seconds: float | None, now: datetime) -> datetime:
    """Return the first tick of a schedule that begins now.

    Raises `ValidationFailed` for what is no expression or zone, and for an expression that never comes true.
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


def _refused(field: str, said: str) -> ValidationFailed:
    return ValidationFailed(f"{field}: {said}", errors=[{"loc": [field], "msg": said, "type": field}])

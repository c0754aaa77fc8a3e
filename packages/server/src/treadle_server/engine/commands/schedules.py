"""Commands that set, pause, run and delete schedules, and that make the tasks of due ticks."""

from dataclasses import dataclass
from datetime import datetime

import orjson
from uuid_utils import uuid7

from treadle_server.access.checks import check_schedule, check_task_scopes
from treadle_server.access.principal import Principal
from treadle_server.domain.jobs import Job
from treadle_server.domain.life import check_version
from treadle_server.domain.schedules import CONTENT_FIELDS, SCHEDULE_FIELDS, Content, Schedule, first_tick
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands.base import OneRow
from treadle_server.engine.commands.instances import fire, has_open_instance, key_holder, make_instance
from treadle_server.engine.commands.jobs import check_room, find_job, same_json
from treadle_server.engine.commands.submit import SchemaMoved, held_by
from treadle_server.engine.commands.workers import job_name_or_404
from treadle_server.engine.naming import limits_of
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import Forbidden, InternalJobNotConfigured, ScheduleNotFound, TaskConflict

MOST = 100
"""How many schedules one command handles at most, so that it never holds up the loop for long.

500 with a deadline and irregular ticks took 0.5 s after a day's outage. 2,000 take 10 % longer in portions of 100.
"""


_TIMING = ("cron", "zone", "interval_seconds")
_PLAIN = (*_TIMING, "jitter_seconds", "missed")
_JSON = ("payload", "template")


@dataclass(frozen=True, slots=True)
class WasSet:
    """A schedule that was set; `created` is true if it is new or had been deleted."""

    schedule: Schedule
    created: bool


def get_schedule(work: UnitOfWork, principal: Principal, room: str, name: str) -> Schedule:
    """Return the caller's schedule. Raises `InvalidRoomId`, `ScheduleNotFound`, or `Forbidden` (another user's)."""
    check_room(room)
    schedule = work.schedules_by_name.get((room, name))
    if schedule is None or schedule.deleted_at is not None:
        raise ScheduleNotFound(f"there is no schedule {name!r} in room {room}")
    check_schedule(principal, schedule, work.jobs_by_num[schedule.job_num].full_name)
    return schedule


@dataclass(slots=True, kw_only=True)
class OfSchedule(OneRow):
    """A command about one schedule, given by room and name."""

    principal: Principal
    room: str
    name: str

    def reads(self, reads: ReadSet) -> None:
        """Read the schedule."""
        reads.schedules.add((self.room, self.name))


@dataclass(slots=True, kw_only=True)
class SetSchedule(OfSchedule):
    """Creates a schedule, or changes what differs; without a difference it keeps its next tick."""

    job_name: str
    content: Content
    paused: bool | None = None
    """None leaves it as it is."""
    content_hash: str | None = None
    """The hash that the registering code gives of its declaration. If it was the same the last time, nothing changes,
    so that people's changes since then stay."""
    if_version: int | None = None

    def reads(self, reads: ReadSet) -> None:
        """Read the schedule and the job, and what a task of it needs: the same batch may run it."""
        job_name = job_name_or_404(self.job_name)
        OfSchedule.reads(self, reads)
        reads.job_names.add(job_name)
        options = orjson.loads(self.content.template)
        reads.new_tasks.append((job_name, self.room, options.get("pool")))
        if (target := options.get("target")) is not None:
            reads.targets.add((self.room, target))
        if (key := options.get("unique_key")) is not None:
            reads.unique_keys.add((job_name, key))
        reads.limits.update((self.room, one["name"]) for one in options.get("limits") or ())

    def apply(self, work: UnitOfWork) -> WasSet:
        """Return the schedule.

        Raises `InvalidRoomId`, `JobNotFound`, `InternalJobNotConfigured`, `SchemaMoved`, `Forbidden` (also for scopes
        that the caller does not hold), `ScheduleNotFound` (another user's, which the caller may not see),
        `LimitNotFound`, `TaskConflict` (it has changed since `if_version`), or `ValidationFailed` for a time that never
        comes and for invalid limits.
        """
        job = find_job(work, self.room, self.job_name)
        if job.is_internal:
            raise InternalJobNotConfigured(
                f"{job.full_name} can't be scheduled: its tasks are dispatched as they are submitted"
            )
        if self.content.schema_version != job.schema_version:
            raise SchemaMoved
        known = work.schedules_by_name.get((self.room, self.name))
        if known is not None and known.deleted_at is None:
            return WasSet(self._change(work, known, job), created=False)
        self._check_options(work, job)
        return WasSet(self._make(work, job, known), created=True)

    def _check_options(self, work: UnitOfWork, job: Job) -> None:
        """Refuse scopes that the caller does not hold, with which its tasks would act, and invalid limits."""
        options = orjson.loads(self.content.template)
        check_task_scopes(self.principal, options.get("scopes") or ())
        limits_of(work, job, self.room, options.get("limits"), self.content.payload)

    def _make(self, work: UnitOfWork, job: Job, deleted: Schedule | None) -> Schedule:
        """Create the schedule, or reuse the row of a deleted one of that name, whose open task ends without effect."""
        fresh = self._fresh(work, job)
        if deleted is None:
            work.add_schedule(fresh)
            return fresh
        fresh.id, fresh.version = deleted.id, deleted.version + 1
        for name in SCHEDULE_FIELDS:
            setattr(deleted, name, getattr(fresh, name))
        work.changes.rescheduled.add(deleted.id)
        work.change_schedule(deleted)
        return deleted

    def _fresh(self, work: UnitOfWork, job: Job) -> Schedule:
        content = self.content
        return Schedule(
            **{name: getattr(content, name) for name in CONTENT_FIELDS},
            id=str(uuid7()),
            room=self.room,
            name=self.name,
            job_num=job.num,
            paused=self.paused or False,
            next_at=_first(content, work.now),
            last_at=None,
            last_task_id=None,
            owner=self.principal.user,
            created_at=work.now,
            content_hash=self.content_hash,
        )

    def _change(self, work: UnitOfWork, known: Schedule, job: Job) -> Schedule:
        is_known_code = self.content_hash is not None and self.content_hash == known.content_hash
        is_to_stay = is_known_code or not self._differs(known, job)
        try:
            check_schedule(self.principal, known, work.jobs_by_num[known.job_num].full_name)
        except Forbidden:
            # A caller who may only see the schedule gets it if it is as wanted already; otherwise this is refused.
            if not is_to_stay:
                raise
        check_version(known, self.if_version)
        if is_to_stay:
            return known
        self._check_options(work, job)
        content = self.content
        is_rescheduled = any(getattr(known, name) != getattr(content, name) for name in _TIMING)
        next_at = _first(content, work.now) if is_rescheduled else known.next_at
        if is_rescheduled:
            work.changes.rescheduled.add(known.id)
        for name in (*_PLAIN, *_JSON, "schema_version"):
            setattr(known, name, getattr(content, name))
        known.job_num, known.next_at = job.num, next_at
        if self.content_hash is not None:
            known.content_hash = self.content_hash
        if self.paused is not None and self.paused != known.paused:
            _pause(work, known, paused=self.paused)
        known.version += 1
        work.change_schedule(known)
        return known

    def _differs(self, known: Schedule, job: Job) -> bool:
        return (
            known.job_num != job.num
            or (self.paused is not None and self.paused != known.paused)
            or (self.content_hash is not None and self.content_hash != known.content_hash)
            or any(getattr(known, name) != getattr(self.content, name) for name in (*_PLAIN, "schema_version"))
            or any(not same_json(getattr(known, name), getattr(self.content, name)) for name in _JSON)
        )


def _first(content: Content, now: datetime) -> datetime:
    return first_tick(content.cron, content.zone, content.interval_seconds, now)


def _pause(work: UnitOfWork, schedule: Schedule, *, paused: bool) -> None:
    """Pause the schedule, or resume it with the next tick from now: ticks during the pause don't count as missed.

    Resuming also corrects a next tick that was set by a clock that was ahead.
    """
    schedule.paused = paused
    if not paused and schedule.next_at is not None:
        schedule.next_at = schedule.tick_after(work.now)
        work.changes.rescheduled.add(schedule.id)


@dataclass(slots=True, kw_only=True)
class PauseSchedule(OfSchedule):
    """Pauses or resumes a schedule."""

    paused: bool
    if_version: int | None = None

    def apply(self, work: UnitOfWork) -> Schedule:
        """Return the schedule. Raises `InvalidRoomId`, `ScheduleNotFound`, `Forbidden` or `TaskConflict`."""
        schedule = get_schedule(work, self.principal, self.room, self.name)
        check_version(schedule, self.if_version)
        if schedule.paused != self.paused:
            _pause(work, schedule, paused=self.paused)
            schedule.version += 1
            work.change_schedule(schedule)
        return schedule


@dataclass(slots=True, kw_only=True)
class RunSchedule(OfSchedule):
    """Makes a schedule's task now, even if it is paused; its ticks are not affected."""

    def apply(self, work: UnitOfWork) -> Task:
        """Return the task.

        Raises `InvalidRoomId`, `ScheduleNotFound`, `Forbidden`, `LimitNotFound`, `LimitFull` (`ValidationFailed` for
        invalid limits), or `TaskConflict` while its last task is open or another task holds its unique key.
        """
        schedule = get_schedule(work, self.principal, self.room, self.name)
        if has_open_instance(work, schedule):
            raise TaskConflict(
                f"task {schedule.last_task_id} of schedule {schedule.name!r} has not ended yet: wait for it, or cancel"
                " it"
            )
        if (holder := key_holder(work, schedule)) is not None:
            raise held_by(self.principal, holder)
        return make_instance(work, schedule, None)


@dataclass(slots=True, kw_only=True)
class DeleteSchedule(OfSchedule):
    """Deletes a schedule; its open task goes on, and no other follows."""

    def apply(self, work: UnitOfWork) -> None:
        """Delete the schedule. Raises `InvalidRoomId`, `ScheduleNotFound` or `Forbidden`."""
        schedule = get_schedule(work, self.principal, self.room, self.name)
        schedule.deleted_at = work.now
        schedule.next_at = None
        schedule.version += 1
        work.change_schedule(schedule)
        work.maybe_orphan(schedule.job_num)


@dataclass(slots=True)
class FireDue:
    """Makes the tasks of due schedules; answers how many schedules it handled, at most `MOST`."""

    rows = MOST

    def reads(self, reads: ReadSet) -> None:
        """Read the due schedules."""
        reads.due_schedules = MOST

    def apply(self, work: UnitOfWork) -> int:
        """Return how many schedules moved on to their next tick."""
        dealt = 0
        for schedule in work.due_schedules:
            is_due = schedule.is_due(work.now) and not has_open_instance(work, schedule)
            if is_due and work.jobs_by_num[schedule.job_num].deleted_at is None:
                fire(work, schedule)
                dealt += 1
        return dealt

"""The model's schedules: tasks that are put in again and again, one at a time (E10)."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from tests.model.submits import Given
from tests.model.things import CONFLICT, FORBIDDEN, NO_SCHEDULE, Refused, Schedule, Task, User
from tests.model.verbs import Verbs

MISSED_AFTER = 60.0
"""Seconds after which a tick that nobody saw to was missed."""


def next_tick(cron: str | None, interval: float | None, phase: datetime | None, after: datetime) -> datetime:
    """Return the first tick later than `after`; cron is `*/N * * * *`, each N minutes of the hour."""
    if cron is not None:
        every = int(cron.split()[0].removeprefix("*/"))
        tick = after.replace(second=0, microsecond=0)
        while tick <= after or tick.minute % every:
            tick += timedelta(minutes=1)
        return tick
    assert interval is not None
    tick = after + timedelta(seconds=interval) if phase is None else phase
    while tick <= after:
        tick += timedelta(seconds=interval)
    return tick


class Schedules(Verbs):
    """What puts tasks in by itself."""

    def __init__(self, worker_timeout: float = 60.0) -> None:
        super().__init__(worker_timeout)
        self.coming: dict[tuple[str, str], str] = {}
        """The ids that the server gave to tasks of schedules, in their order: of which schedule each is."""

    # What users do

    def set_schedule(self, user: User, room: str, name: str, given: Given, now: datetime) -> tuple[Schedule, bool]:
        """Make a schedule, or change it; return it, and whether it is new."""
        if user.run is not None:
            raise FORBIDDEN
        self._check_job(room, given["job"])
        known, fresh = self.schedules.get((room, name)), self._fresh(user, room, name, given, now)
        if known is None or known.deleted:
            fresh.version += 0 if known is None else known.version
            self.schedules[room, name] = fresh
            return fresh, True
        if given.get("if_version") not in {None, known.version}:
            raise CONFLICT
        content = ("job_name", "payload", "options", "cron", "interval", "missed")
        is_other = any(getattr(known, one) != getattr(fresh, one) for one in content)
        paused = given.get("paused")
        if is_other or paused not in {None, known.paused}:
            self._check_owner(user, known)
            if (known.cron, known.interval) != (fresh.cron, fresh.interval):
                known.next_at = fresh.next_at
            for one in content:
                setattr(known, one, getattr(fresh, one))
            if paused not in {None, known.paused}:
                self._pause_schedule(known, now, paused=paused)
            known.version += 1
        return known, False

    @staticmethod
    def _fresh(user: User, room: str, name: str, given: Given, now: datetime) -> Schedule:
        cron, interval = given.get("cron"), given.get("interval")
        return Schedule(
            room, name, given["job"], given.get("payload", {}), given.get("options", {}), cron, interval,
            given.get("missed", "late"), user.name, now, next_tick(cron, interval, None, now),
            paused=given.get("paused") or False,
        )  # fmt: skip

    @staticmethod
    def _check_owner(user: User, schedule: Schedule) -> None:
        if not user.superuser and user.name != schedule.owner:
            raise FORBIDDEN

    def own_schedule(self, user: User, room: str, name: str) -> Schedule:
        """Return the schedule that the user may steer."""
        schedule = self.schedules.get((room, name))
        if schedule is None or schedule.deleted or user.run is not None:
            raise NO_SCHEDULE
        self._check_owner(user, schedule)
        return schedule

    def pause_schedule(self, user: User, room: str, name: str, now: datetime, *, paused: bool) -> Schedule:
        """Pause it, or let it go on."""
        schedule = self.own_schedule(user, room, name)
        if schedule.paused != paused:
            self._pause_schedule(schedule, now, paused=paused)
            schedule.version += 1
        return schedule

    @staticmethod
    def _pause_schedule(schedule: Schedule, now: datetime, *, paused: bool) -> None:
        """Those ticks that came in the pause are over."""
        schedule.paused = paused
        if not paused and schedule.next_at <= now:
            schedule.next_at = next_tick(schedule.cron, schedule.interval, schedule.next_at, now)

    def run_schedule(self, user: User, room: str, name: str, now: datetime, names: Iterator[str]) -> Task:
        """Put its task in now; no tick is used up."""
        schedule = self.own_schedule(user, room, name)
        if self._has_open(schedule) or self._key_holder(schedule) is not None:
            raise CONFLICT
        self._check_limits(schedule, now)
        return self._make(schedule, now, now, next(names), last=now)

    def delete_schedule(self, user: User, room: str, name: str) -> None:
        """Nothing follows; what is open goes on."""
        schedule = self.own_schedule(user, room, name)
        schedule.deleted = True
        schedule.version += 1

    # What time does

    def tick(self, now: datetime) -> None:
        """Deal with the ticks that have come."""
        for schedule in self._in_order(self.schedules.values()):
            if self._is_due(schedule, now) and not self._has_open(schedule):
                following = next_tick(schedule.cron, schedule.interval, schedule.next_at, schedule.next_at)
                is_missed = (now - schedule.next_at).total_seconds() >= MISSED_AFTER or following <= now
                self._fire(schedule, now, skips=schedule.missed == "skip" and is_missed)

    def go_on(self, now: datetime) -> None:
        """A tick that came while the task was open that is over now was missed: one task for all of them, or none."""
        ended, self.ended = self.ended, []
        found = [self.schedules.get(self.tasks[task_id].schedule or ("", "")) for task_id in dict.fromkeys(ended)]
        for schedule in self._in_order(one for one in found if one is not None and one.last_task_id in ended):
            if self._is_due(schedule, now) and not self._has_open(schedule):
                self._fire(schedule, now, skips=schedule.missed == "skip")

    def _in_order(self, found: Any) -> list[Schedule]:
        """Return the schedules in the order in which the server put their tasks in: it is free."""
        order = {name: place for place, name in enumerate(self.coming)}
        return sorted(found, key=lambda one: order.get((one.room, one.name), len(order)))

    def _is_due(self, schedule: Schedule, now: datetime) -> bool:
        stands = schedule.paused or schedule.deleted or self.jobs[schedule.job_name].deleted
        return not stands and schedule.next_at <= now

    def _has_open(self, schedule: Schedule) -> bool:
        return schedule.last_task_id is not None and self.tasks[schedule.last_task_id].is_open

    def _key_holder(self, schedule: Schedule) -> Task | None:
        key = schedule.options.get("unique_key")
        held = [one for one in self.tasks.values() if one.is_open and one.job_name == schedule.job_name]
        return next((one for one in held if key is not None and one.unique_key == key), None)

    def _fire(self, schedule: Schedule, now: datetime, *, skips: bool) -> None:
        tick = last = schedule.next_at
        while (following := next_tick(schedule.cron, schedule.interval, last, last)) <= now:
            last = following
        schedule.next_at = next_tick(schedule.cron, schedule.interval, tick, now)
        if skips:
            return
        holder = self._key_holder(schedule)
        if self._are_limits_refused(schedule, now):
            schedule.skipped_at, schedule.skipped_for = tick, None
        elif holder is not None:
            schedule.skipped_at, schedule.skipped_for = tick, holder.id
        else:
            task_id = self.coming.get((schedule.room, schedule.name), "(no such task)")
            self._make(schedule, tick, now, task_id, last=last)

    def _check_limits(self, schedule: Schedule, now: datetime) -> None:
        job = self.jobs[schedule.job_name]
        counts = self.counts_of(job, schedule.room, schedule.options.get("limits"), schedule.payload)
        self.check_counts(counts)
        self.check_room([(counts, True)], now)

    def _are_limits_refused(self, schedule: Schedule, now: datetime) -> bool:
        try:
            self._check_limits(schedule, now)
        except Refused:
            return True
        return False

    def _make(self, schedule: Schedule, due: datetime, now: datetime, task_id: str, *, last: datetime) -> Task:
        options = dict(schedule.options)
        seconds = options.pop("deadline", None)
        one: Given = options | {
            "job": schedule.job_name, "payload": schedule.payload, "scheduled_at": due,
            "deadline": None if seconds is None else last + timedelta(seconds=seconds),
            "tags": {"schedule": schedule.name},
        }  # fmt: skip
        task = self.new_task(User(schedule.owner), schedule.room, one, now, task_id)
        task.content, task.schedule = None, (schedule.room, schedule.name)
        schedule.last_at, schedule.last_task_id = due, task.id
        self.supersede(task, now)
        return task

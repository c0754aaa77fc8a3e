"""Schedules: set, paused, run by hand, deleted."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.model.operations.base import JOBS, ROOMS, USERS, Body, Moment, Operation, Request, Told, task_seen
from tests.model.reference import Treadle, written
from tests.model.things import Schedule

NAMES = ("hourly", "nightly")


def schedule_seen(body: Body) -> Body:
    """Return what is compared of a schedule that an answer shows."""
    names = ("name", "job_name", "version", "next_at", "paused", "last_task_id")
    return {name: body[name] for name in names}


def _shown(schedule: Schedule) -> Body:
    names = ("name", "job_name", "version", "paused", "last_task_id")
    return {name: getattr(schedule, name) for name in names} | {
        "next_at": None if schedule.paused else written(schedule.next_at)
    }


@dataclass(frozen=True)
class OfSchedule(Operation):
    """What is done with a schedule, by the numbers of its name and its room."""

    name: int = 0
    room: int = 0
    user: int = 0

    @property
    def path(self) -> str:
        return f"/v1/rooms/{ROOMS[self.room]}/schedules/{NAMES[self.name]}"

    @property
    def key(self) -> tuple[str, str]:
        return ROOMS[self.room], NAMES[self.name]

    def seen(self, body: Any) -> Any:
        return schedule_seen(body)


@dataclass(frozen=True)
class SetSchedule(OfSchedule):
    """Made, or changed."""

    job: int = 0
    given: Body = field(default_factory=dict)
    """`cron` or `interval`, and what else stands in the body; under `options` what a submit says of a task."""

    def request(self, model: Treadle, now: datetime) -> Request:
        body = {name: value for name, value in self.given.items() if name != "options"} | self.given.get("options", {})
        return Request(USERS[self.user], "PUT", self.path, {"job": JOBS[self.job], **body})

    def answer(self, at: Moment) -> Any:
        given = {"job": JOBS[self.job], **self.given}
        schedule, is_new = at.model.set_schedule(at.by(USERS[self.user]), *self.key, given, at.now)
        return Told(201 if is_new else 200, _shown(schedule))


@dataclass(frozen=True)
class PauseSchedule(OfSchedule):
    """Paused, or let go on."""

    paused: bool = True

    def request(self, model: Treadle, now: datetime) -> Request:
        return Request(USERS[self.user], "PATCH", self.path, {"paused": self.paused})

    def answer(self, at: Moment) -> Any:
        return _shown(at.model.pause_schedule(at.by(USERS[self.user]), *self.key, at.now, paused=self.paused))


@dataclass(frozen=True)
class RunSchedule(OfSchedule):
    """Its task is put in by hand."""

    def request(self, model: Treadle, now: datetime) -> Request:
        return Request(USERS[self.user], "POST", f"{self.path}/run")

    def answer(self, at: Moment) -> Any:
        user = at.by(USERS[self.user])
        return Told(202, at.model.shown(at.model.run_schedule(user, *self.key, at.now, at.names)))

    def seen(self, body: Any) -> Any:
        return task_seen(body)

    def gist(self, seen: Any) -> Any:
        return seen["id"]


@dataclass(frozen=True)
class DeleteSchedule(OfSchedule):
    """Nothing follows its task."""

    def request(self, model: Treadle, now: datetime) -> Request:
        return Request(USERS[self.user], "DELETE", self.path)

    def answer(self, at: Moment) -> Any:
        at.model.delete_schedule(at.by(USERS[self.user]), *self.key)
        return Told(204, None)

"""Workers, and the queues that they serve."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.model.operations.base import (
    JOBS,
    SPECS,
    USERS,
    Body,
    Moment,
    Operation,
    Request,
    Told,
    nth,
    owner,
    the,
)
from tests.model.reference import Treadle
from tests.model.things import ROOT

WORKERS = 4
"""Most workers of a program."""


@dataclass(frozen=True)
class PauseJob(Operation):
    job: int
    paused: bool

    def request(self, model: Treadle, now: datetime) -> Request:
        job = JOBS[self.job]
        return Request(ROOT, "PATCH", f"/v1/rooms/{job.split(':')[0]}/jobs/{job}", {"paused": self.paused})

    def answer(self, at: Moment) -> Any:
        return at.model.pause_job(JOBS[self.job], paused=self.paused)

    def seen(self, body: Any) -> Any:
        return body["paused"]


@dataclass(frozen=True)
class Register(Operation):
    """A worker comes, which serves nothing yet."""

    given: Body = field(default_factory=dict)
    user: int = 0

    def request(self, model: Treadle, now: datetime) -> Request | None:
        return Request(USERS[self.user], "POST", "/v1/workers", self.given) if len(model.workers) < WORKERS else None

    def answer(self, at: Moment) -> Any:
        worker = at.model.register_worker(USERS[self.user], next(at.names), at.now, [], **self.given)
        return Told(201, worker.id)

    def seen(self, body: Any) -> Any:
        return body["id"]


@dataclass(frozen=True)
class Link(Operation):
    """A worker registers a job that it serves."""

    worker: int
    job: int

    def request(self, model: Treadle, now: datetime) -> Request | None:
        if (worker := nth(self.worker, model.workers.values())) is None:
            return None
        room, category, name = JOBS[self.job].split(":")
        body = {"category": category, "name": name, "worker_id": worker.id, **SPECS[self.job]}
        return Request(owner(worker.owner), "PUT", f"/v1/rooms/{room}/jobs", body)

    def answer(self, at: Moment) -> Any:
        worker = the(self.worker, at.then.workers.values())
        is_new = at.model.register_job(owner(worker.owner), JOBS[self.job], worker.id, at.now, **SPECS[self.job])
        return Told(201 if is_new else 200, JOBS[self.job])

    def seen(self, body: Any) -> Any:
        return body["full_name"]


@dataclass(frozen=True)
class DrainWorker(Operation):
    """Somebody asks a worker to take no more."""

    worker: int

    def request(self, model: Treadle, now: datetime) -> Request | None:
        if (worker := nth(self.worker, model.workers.values())) is None:
            return None
        return Request(owner(worker.owner), "POST", f"/v1/workers/{worker.id}/drain")

    def answer(self, at: Moment) -> Any:
        worker = the(self.worker, at.then.workers.values())
        return Told(200, at.model.drain_worker(owner(worker.owner), worker.id).state)

    def seen(self, body: Any) -> Any:
        return body["state"]


@dataclass(frozen=True)
class RemoveWorker(Operation):
    worker: int

    def request(self, model: Treadle, now: datetime) -> Request | None:
        if (worker := nth(self.worker, model.workers.values())) is None:
            return None
        return Request(owner(worker.owner), "DELETE", f"/v1/workers/{worker.id}")

    def answer(self, at: Moment) -> Any:
        worker = the(self.worker, at.then.workers.values())
        at.model.remove_worker(owner(worker.owner), worker.id, at.now)
        return Told(204, None)

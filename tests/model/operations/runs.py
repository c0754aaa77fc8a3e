"""Runs: claimed, beaten for, and reported of."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.model.operations.base import (
    USERS,
    Body,
    Moment,
    Operation,
    Request,
    nth,
    owner,
    run_meant,
    task_seen,
    the,
)
from tests.model.reference import Treadle, written
from tests.model.rights import Gate
from tests.model.things import ROOT, Task


@dataclass(frozen=True)
class Claim(Operation):
    worker: int = 0
    most: int = 1
    key: str | None = None
    """The `Idempotency-Key`: the same claim again, unless `most` differs."""

    def request(self, model: Treadle, now: datetime) -> Request | None:
        worker = nth(self.worker, model.workers.values())
        if worker is None:
            return None
        body = {"worker_id": worker.id, "tasks": self.most}
        return Request(owner(worker.owner), "POST", "/v1/tasks/claim", body, self.key)

    def answer(self, at: Moment) -> Any:
        worker = the(self.worker, at.then.workers.values())
        given = None if at.knows_turns else [one["id"] for one in (at.told or {}).get("tasks", [])]
        most = self.most if given is None or at.least is None else max(at.least, len(given))
        user = at.by(owner(worker.owner))
        claimed = at.model.claim(user, worker.id, self.most, at.now, given, key=self.key, granted=most)
        for task in claimed:
            at.model.mint(task)
        return [at.model.shown(task) for task in claimed]

    def seen(self, body: Any) -> Any:
        return [task_seen(one) for one in body["tasks"]]

    def gist(self, seen: Any) -> Any:
        return [one["id"] for one in seen]


@dataclass(frozen=True)
class OfRun(Operation):
    """What is about one run, by the worker or the code that has it."""

    task: int

    @property
    def gate(self) -> Gate:
        return "run"

    def meant(self, model: Treadle) -> tuple[Task, int] | None:
        raise NotImplementedError

    def names(self, model: Treadle) -> str | None:
        meant = self.meant(model)
        return None if meant is None else meant[0].id


@dataclass(frozen=True)
class Report(OfRun):
    """A report over the route of its kind, or several in one request of the worker."""

    said: Body
    back: int = 0
    """How many runs before the last one it means."""
    user: int = 0

    def meant(self, model: Treadle) -> tuple[Task, int] | None:
        return run_meant(model, self.task, self.back)

    def request(self, model: Treadle, now: datetime) -> Request | None:
        if (meant := run_meant(model, self.task, self.back)) is None:
            return None
        body = {name: value for name, value in self.said.items() if name not in {"kind", "starts"}}
        path = f"/v1/tasks/{meant[0].id}/runs/{meant[1]}/{self.said['kind']}"
        return Request(USERS[self.user], "POST", path, body or None)

    def answer(self, at: Moment) -> Any:
        meant = run_meant(at.then, self.task, self.back)
        assert meant is not None
        said = {name: value for name, value in self.said.items() if name != "starts"}
        return at.model.shown(at.model.report(at.by(USERS[self.user]), meant[0].id, meant[1], said, at.now))

    def seen(self, body: Any) -> Any:
        return task_seen(body)


@dataclass(frozen=True)
class Reports(Operation):
    """Several reports of a worker in one request: each a task's number, a run's, and what is said.

    Where `wrong` stands among that, it is what is said beside, and refused.
    """

    worker: int
    reports: tuple[tuple[int, int, Body], ...]

    def _meant(self, model: Treadle) -> list[tuple[str, int, Body]]:
        found = [(run_meant(model, task, back), said) for task, back, said in self.reports]
        return [(one[0].id, one[1], said) for one, said in found if one is not None]

    def request(self, model: Treadle, now: datetime) -> Request | None:
        worker, reports = nth(self.worker, model.workers.values()), self._meant(model)
        if worker is None or not reports:
            return None
        body = [
            {"task_id": task_id, "run_id": run_id, **said} | said.get("wrong", {}) for task_id, run_id, said in reports
        ]
        for one in body:
            one.pop("wrong", None)
        return Request(owner(worker.owner), "POST", f"/v1/workers/{worker.id}/reports", {"reports": body})

    def answer(self, at: Moment) -> Any:
        worker = the(self.worker, at.then.workers.values())
        return at.model.report_many(at.by(owner(worker.owner)), worker.id, self._meant(at.then), at.now)

    def seen(self, body: Any) -> Any:
        return [(one["status"], one["type"] and one["type"].rpartition("/")[2]) for one in body["answers"]]

    def gist(self, seen: Any) -> Any:
        return seen


@dataclass(frozen=True)
class Beat(Operation):
    """A heartbeat: of every run, or of those named by (task, run back, usage)."""

    worker: int = 0
    runs: tuple[tuple[int, int, float | None], ...] | None = None
    stopped: tuple[tuple[int, int], ...] = ()
    draining: bool | None = None

    def _meant(self, model: Treadle) -> tuple[list[tuple[str, int, float | None]] | None, list[tuple[str, int]]]:
        runs = None
        if self.runs is not None:
            found = [(run_meant(model, task, back), usage) for task, back, usage in self.runs]
            named = {(one[0].id, one[1]): usage for one, usage in found if one is not None}
            runs = [(*key, usage) for key, usage in named.items()]
        stopped = [run_meant(model, task, back) for task, back in self.stopped]
        return runs, [(one[0].id, one[1]) for one in stopped if one is not None]

    def request(self, model: Treadle, now: datetime) -> Request | None:
        if (worker := nth(self.worker, model.workers.values())) is None:
            return None
        runs, stopped = self._meant(model)
        body: Body = {}
        if runs is not None:
            body["tasks"] = [
                {"task_id": task_id, "run_id": run_id} | ({} if usage is None else {"usage": usage})
                for task_id, run_id, usage in runs
            ]
        if stopped:
            body["stopped"] = [{"task_id": task_id, "run_id": run_id} for task_id, run_id in stopped]
        if self.draining is not None:
            body["draining"] = self.draining
        return Request(owner(worker.owner), "PATCH", f"/v1/workers/{worker.id}", body)

    def answer(self, at: Moment) -> Any:
        worker = the(self.worker, at.then.workers.values())
        runs, stopped = self._meant(at.then)
        told = at.model.beat(at.by(owner(worker.owner)), worker.id, at.now, runs, stopped, self.draining)
        named = {name: sorted(told[name]) for name in ("cancel", "pause", "gone")}
        return named | {"taken_until": sorted((*key, written(until)) for key, until in told["taken_until"].items())}

    def seen(self, body: Any) -> Any:
        named = {n: sorted((r["task_id"], r["run_id"]) for r in body[n]) for n in ("cancel", "pause", "gone")}
        leases = sorted((r["task_id"], r["run_id"], r["taken_until"]) for r in body["taken_until"])
        return named | {"taken_until": leases}


@dataclass(frozen=True)
class Reclaim(OfRun):
    back: int = 0

    def meant(self, model: Treadle) -> tuple[Task, int] | None:
        return run_meant(model, self.task, self.back)

    def request(self, model: Treadle, now: datetime) -> Request | None:
        if (meant := run_meant(model, self.task, self.back)) is None:
            return None
        return Request(ROOT, "POST", f"/v1/tasks/{meant[0].id}/runs/{meant[1]}/reclaim")

    def answer(self, at: Moment) -> Any:
        meant = run_meant(at.then, self.task, self.back)
        assert meant is not None
        task = at.model.reclaim(at.by(ROOT), meant[0].id, meant[1], at.now)
        at.model.mint(task)
        return (task.id, task.run_id, written(task.taken_until), task.cancel_requested)

    def seen(self, body: Any) -> Any:
        return (body["task_id"], body["run_id"], body["taken_until"], body["pause"])

"""Tasks: put in, steered and edited."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import repeat
from typing import Any

from tests.model.operations.base import (
    JOBS,
    ROOMS,
    USERS,
    Body,
    Moment,
    Operation,
    Request,
    Told,
    chosen_id,
    nth,
    problem_of,
    run_meant,
    task_seen,
    the,
)
from tests.model.reference import Treadle, written
from tests.model.rights import Gate
from tests.model.submits import Submitted
from tests.model.things import INVALID, Refused, Task
from treadle.wire.status import Status


@dataclass(frozen=True)
class Submit(Operation):
    """One task, or several at once, all or none."""

    tasks: tuple[Body, ...]
    """Each `job` by its number, and fields of the wire; times in seconds from now, `id` a number."""
    room: int = 0
    user: int = 0
    alone: bool = True
    """Whether it goes by the route for one."""

    def _given(self, model: Treadle, now: datetime) -> list[Body]:
        given = []
        for place, one in enumerate(self.tasks):
            item = {**one, "job": JOBS[one["job"]]}
            if any(isinstance(word, str) for other in self.tasks for word in other.get("needs", ())):
                item["ref"] = f"t{place}"
            if needs := self._needs(model, item.pop("needs", ())):
                item["depends_on"] = {"one": needs[0], "more": needs[1:]} if len(needs) > 1 else {"one": needs[0]}
            for name in ("scheduled_at", "deadline"):
                if name in item:
                    item[name] = now + timedelta(seconds=item[name])
            if "id" in item:
                item["id"] = chosen_id(item["id"])
            given.append(item)
        return given

    def _needs(self, model: Treadle, needs: tuple[int | str, ...]) -> list[str]:
        """Return the refs and ids of tasks: a text is the place of one of the same request, a number any task's."""
        words = [
            f"t{int(word) % len(self.tasks)}" if isinstance(word, str) else nth(word, model.tasks) for word in needs
        ]
        return [word for word in words if word is not None]

    def request(self, model: Treadle, now: datetime) -> Request:
        items = [{name: written(value) for name, value in item.items()} for item in self._given(model, now)]
        room, user = ROOMS[self.room], USERS[self.user]
        if self.alone and len(items) == 1 and "ref" not in items[0]:
            job = items[0].pop("job")
            return Request(user, "POST", f"/v1/rooms/{room}/tasks/{job}", items[0])
        return Request(user, "POST", f"/v1/rooms/{room}/tasks", {"tasks": items})

    def answer(self, at: Moment) -> Any:
        given = self._given(at.then, at.now)
        done = at.model.submit(at.by(USERS[self.user]), ROOMS[self.room], given, at.now, at.names)
        # Who is named again was read, behind those that came after it.
        read = {one.task.id for one in done if not one.created}
        places = [{"queue_position": one.position} if one.position and one.task.id not in read else {} for one in done]
        shown = [at.model.shown(one.task) | place for one, place in zip(done, places, strict=True)]
        if at.model.is_set_back(at.now):
            # The clock was set back: a submit is told its place from counts, which know no time. Lists are exact.
            for one, told in zip(shown, at.told.get("tasks", [at.told]) if at.told else shown, strict=True):
                one["queue_position"] = told["queue_position"]
        return Told(202 if any(one.created for one in done) else 200, shown)

    def seen(self, body: Any) -> Any:
        return [task_seen(one) for one in body.get("tasks", [body])]

    def gist(self, seen: Any) -> Any:
        return [one["id"] for one in seen]


@dataclass(frozen=True)
class Steer(Operation):
    """A verb for one task; `since` is how many versions before the present one it names, None: none."""

    task: int
    action: str
    since: int | None = None
    given: Body = field(default_factory=dict)
    user: int = 0

    def names(self, model: Treadle) -> str | None:
        return nth(self.task, model.tasks)

    def _version(self, task: Task) -> int | None:
        return None if self.since is None else max(1, task.version - self.since)

    def request(self, model: Treadle, now: datetime) -> Request | None:
        if (task := nth(self.task, model.tasks.values())) is None:
            return None
        version = self._version(task)
        body = self.given | ({} if version is None else {"if_version": version})
        return Request(USERS[self.user], "POST", f"/v1/tasks/{task.id}/{self.action}", body or None)

    def answer(self, at: Moment) -> Any:
        task = the(self.task, at.then.tasks.values())
        user, version = at.by(USERS[self.user]), self._version(task)
        return at.model.shown(at.model.steer(user, task.id, self.action, at.now, if_version=version, **self.given))

    def seen(self, body: Any) -> Any:
        return task_seen(body)


@dataclass(frozen=True)
class SteerMany(Operation):
    tasks: tuple[int, ...]
    action: str
    user: int = 0

    def _ids(self, model: Treadle) -> list[str]:
        return list(dict.fromkeys(the(number, model.tasks) for number in self.tasks if model.tasks))

    def request(self, model: Treadle, now: datetime) -> Request | None:
        if not (ids := self._ids(model)):
            return None
        return Request(USERS[self.user], "POST", "/v1/tasks/actions", {"action": self.action, "ids": ids})

    def answer(self, at: Moment) -> Any:
        return at.model.steer_many(at.by(USERS[self.user]), self._ids(at.then), self.action, at.now)

    def seen(self, body: Any) -> Any:
        return _outcomes(body)


def _changes(given: Body, now: datetime) -> Body:
    changes = dict(given)
    for name in ("scheduled_at", "deadline"):
        if changes.get(name) is not None:
            changes[name] = now + timedelta(seconds=changes[name])
    return changes


def _outcomes(body: Body) -> Body:
    """Return what became of each task, by its id: its version, or the problem."""
    versions: Body = body["versions"]
    return versions | {one["id"]: one["type"].rpartition("/")[2] for one in body["problems"]}


@dataclass(frozen=True)
class Edit(Operation):
    task: int
    changes: Body
    """`scheduled_at` and `deadline` in seconds from now."""
    since: int | None = None
    user: int = 0

    @property
    def gate(self) -> Gate:
        return "late"

    def names(self, model: Treadle) -> str | None:
        return nth(self.task, model.tasks)

    def request(self, model: Treadle, now: datetime) -> Request | None:
        if (task := nth(self.task, model.tasks.values())) is None:
            return None
        body = {name: written(value) for name, value in _changes(self.changes, now).items()}
        if self.since is not None:
            body["if_version"] = max(1, task.version - self.since)
        return Request(USERS[self.user], "PATCH", f"/v1/tasks/{task.id}", body)

    def answer(self, at: Moment) -> Any:
        task = the(self.task, at.then.tasks.values())
        version = None if self.since is None else max(1, task.version - self.since)
        user, changes = at.by(USERS[self.user]), _changes(self.changes, at.now)
        return at.model.shown(at.model.edit(user, task.id, changes, at.now, if_version=version))

    def seen(self, body: Any) -> Any:
        return task_seen(body)


@dataclass(frozen=True)
class EditMany(Operation):
    """Each task has its own changes, as an undo gives them."""

    edits: tuple[tuple[int, Body, int | None], ...]
    """The task, its changes, and how many versions before the present one it names, None: none."""
    user: int = 0

    def _edits(self, model: Treadle, now: datetime) -> list[tuple[str, Body, int | None]]:
        found: dict[str, tuple[Body, int | None]] = {}
        for number, changes, since in self.edits:
            if (task := nth(number, model.tasks.values())) is not None:
                version = None if since is None else max(1, task.version - since)
                found.setdefault(task.id, (_changes(changes, now), version))
        return [(task_id, *edit) for task_id, edit in found.items()]

    def request(self, model: Treadle, now: datetime) -> Request | None:
        edits = [
            {"id": task_id, **{name: written(value) for name, value in changes.items()}}
            | ({} if version is None else {"if_version": version})
            for task_id, changes, version in self._edits(model, now)
        ]
        return Request(USERS[self.user], "POST", "/v1/tasks/edits", {"edits": edits}) if edits else None

    def answer(self, at: Moment) -> Any:
        return at.model.edit_many(at.by(USERS[self.user]), self._edits(at.then, at.now), at.now)

    def seen(self, body: Any) -> Any:
        return _outcomes(body)


@dataclass(frozen=True)
class SubmitEach(Submit):
    """Several tasks over the socket, each by itself; `wrong` in one of them is what it says beside, and is refused."""

    def request(self, model: Treadle, now: datetime) -> Request:
        items = [{name: written(value) for name, value in item.items()} for item in self._given(model, now)]
        items = [
            {name: value for name, value in one.items() if name != "wrong"} | one.get("wrong", {}) for one in items
        ]
        return Request(USERS[self.user], "SOCKET", "submit_each", {"room": ROOMS[self.room], "tasks": items})

    def answer(self, at: Moment) -> Any:
        found: list[Body | str] = []
        told = iter(at.told["tasks"]) if at.told else repeat(None)
        for one, receipt in zip(self._given(at.then, at.now), told, strict=False):
            try:
                if "wrong" in one:
                    raise INVALID
                [done] = at.model.submit(at.by(USERS[self.user]), ROOMS[self.room], [one], at.now, at.names)
                found.append(self._receipt(at, done, receipt))
            except Refused as refused:
                found.append(refused.name)
        return found

    @staticmethod
    def _receipt(at: Moment, done: Submitted, told: Body | None) -> Body:
        task, position = done.task, done.position
        if told is not None and at.model.is_set_back(at.now):
            position = told.get("queue_position")
        names = ("id", "job_name", "room_id", "status", "scheduled_at", "version")
        shown = {name: written(getattr(task, name)) for name in names}
        return shown | {"created": done.created, "queue_position": position}

    def seen(self, body: Any) -> Any:
        return [problem_of(one["problem"]) if "problem" in one else one for one in body["tasks"]]

    def gist(self, seen: Any) -> Any:
        return [one if isinstance(one, str) else one["id"] for one in seen]


@dataclass(frozen=True)
class PatchStatus(Operation):
    """A task's status, as older clients report it: without a run, unless `back` says which before the last one."""

    task: int
    status: str
    given: Body = field(default_factory=dict)
    back: int | None = None
    user: int = 0

    @property
    def gate(self) -> Gate:
        return "late" if self.status == "cancelled" else "run"

    def names(self, model: Treadle) -> str | None:
        meant = run_meant(model, self.task, self.back or 0)
        return None if meant is None else meant[0].id

    def request(self, model: Treadle, now: datetime) -> Request | None:
        if (meant := run_meant(model, self.task, self.back or 0)) is None:
            return None
        body = {"status": self.status, **self.given} | ({} if self.back is None else {"run_id": meant[1]})
        return Request(USERS[self.user], "PATCH", f"/v1/tasks/{meant[0].id}", body)

    def answer(self, at: Moment) -> Any:
        meant = run_meant(at.then, self.task, self.back or 0)
        assert meant is not None
        run_id = None if self.back is None else meant[1]
        said = {"kind": self._kind(), **self.given}
        user, status = at.by(USERS[self.user]), Status(self.status)
        return at.model.shown(at.model.patch_status(user, meant[0].id, status, said, at.now, run_id))

    def _kind(self) -> str:
        if self.status == "failed" and self.given.get("reason") not in {None, "error", "timeout"}:
            return "exception"
        return {"running": "started"}.get(self.status, self.status)

    def seen(self, body: Any) -> Any:
        return task_seen(body)


@dataclass(frozen=True)
class Look(Operation):
    """Somebody reads a task."""

    task: int
    user: int = 0

    def names(self, model: Treadle) -> str | None:
        return nth(self.task, model.tasks)

    def request(self, model: Treadle, now: datetime) -> Request | None:
        task_id = self.names(model)
        return None if task_id is None else Request(USERS[self.user], "GET", f"/v1/tasks/{task_id}")

    def answer(self, at: Moment) -> Any:
        return at.model.shown(the(self.task, at.then.tasks.values()))

    def seen(self, body: Any) -> Any:
        return task_seen(body)

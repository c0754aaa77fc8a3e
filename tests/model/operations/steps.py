"""Steps: messages that are sent to a task, and received by a run of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.model.operations.base import USERS, Body, Moment, Operation, Request, Told, nth, run_meant, the
from tests.model.operations.runs import OfRun
from tests.model.reference import Treadle, written
from tests.model.things import Task


@dataclass(frozen=True)
class Send(Operation):
    """A message for a task; sent again it may have other data."""

    task: int
    name: str
    id: str
    data: Any
    user: int = 0

    def names(self, model: Treadle) -> str | None:
        return nth(self.task, model.tasks)

    def request(self, model: Treadle, now: datetime) -> Request | None:
        if (task_id := self.names(model)) is None:
            return None
        body = {"data": self.data, "id": self.id}
        return Request(USERS[self.user], "POST", f"/v1/tasks/{task_id}/messages/{self.name}", body)

    def answer(self, at: Moment) -> Any:
        task_id, user = the(self.task, at.then.tasks), at.by(USERS[self.user])
        message, is_new = at.model.send(user, task_id, self.name, self.id, self.data, at.now)
        shown = {"task_id": task_id, "name": message.name, "id": message.id, "sent_at": written(message.sent_at)}
        return Told(201 if is_new else 200, shown | {"received": message.by is not None})

    def seen(self, body: Any) -> Any:
        return {name: body[name] for name in ("task_id", "name", "id", "sent_at", "received")}


@dataclass(frozen=True)
class Receive(OfRun):
    """A run asks for the message of a step."""

    step: Body
    back: int = 0
    user: int = 0

    def meant(self, model: Treadle) -> tuple[Task, int] | None:
        return run_meant(model, self.task, self.back)

    def request(self, model: Treadle, now: datetime) -> Request | None:
        if (meant := self.meant(model)) is None:
            return None
        path = f"/v1/tasks/{meant[0].id}/runs/{meant[1]}/receive"
        return Request(USERS[self.user], "POST", path, self.step)

    def answer(self, at: Moment) -> Any:
        meant = self.meant(at.then)
        assert meant is not None
        said = {"kind": "receive", **self.step}
        task = at.model.report(at.by(USERS[self.user]), meant[0].id, meant[1], said, at.now)
        return None if (step := at.model.kept_step(task, said)) is None else at.model.shown_step(step)

    def seen(self, body: Any) -> Any:
        return body["item"]

"""Limits: made, changed and deleted."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.model.operations.base import ROOMS, USERS, Moment, Operation, Request, Told
from tests.model.reference import Treadle

LIMITS = ("api", "gpu")


@dataclass(frozen=True)
class SetLimit(Operation):
    """A limit by the number of its name: made, or changed."""

    name: int = 0
    concurrency: int = 1
    on_full: str = "wait"
    room: int = 0
    user: int = 0

    def request(self, model: Treadle, now: datetime) -> Request:
        body = {"concurrency": self.concurrency, "on_full": self.on_full}
        return Request(USERS[self.user], "PUT", f"/v1/rooms/{ROOMS[self.room]}/limits/{LIMITS[self.name]}", body)

    def answer(self, at: Moment) -> Any:
        named = (ROOMS[self.room], LIMITS[self.name])
        limit, is_new = at.model.set_limit(at.by(USERS[self.user]), *named, self.concurrency, self.on_full)
        return Told(201 if is_new else 200, (limit.concurrency, limit.on_full, limit.version))

    def seen(self, body: Any) -> Any:
        return (body["concurrency"], body["on_full"], body["version"])


@dataclass(frozen=True)
class DeleteLimit(Operation):
    """A limit is deleted that nothing open names."""

    name: int = 0
    room: int = 0
    user: int = 0

    def request(self, model: Treadle, now: datetime) -> Request:
        return Request(USERS[self.user], "DELETE", f"/v1/rooms/{ROOMS[self.room]}/limits/{LIMITS[self.name]}")

    def answer(self, at: Moment) -> Any:
        at.model.delete_limit(at.by(USERS[self.user]), ROOMS[self.room], LIMITS[self.name])
        return Told(204, None)

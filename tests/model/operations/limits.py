"""Limits: made, changed and deleted."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.model.operations.base import ROOMS, USERS, Body, Moment, Operation, Request, Told
from tests.model.reference import Treadle
from tests.model.things import Rate

LIMITS = ("api", "gpu", "per")
IN_ROOMS = (*ROOMS, "@global")


@dataclass(frozen=True)
class SetLimit(Operation):
    """A limit by the number of its name: made, or changed."""

    name: int = 0
    concurrency: int | None = 1
    on_full: str = "wait"
    room: int = 0
    user: int = 0
    rate: tuple[int, float, int | None] | None = None
    """Tokens, the seconds in which as many fill, and the most; None: as many as the first."""

    def request(self, model: Treadle, now: datetime) -> Request:
        body: Body = {"concurrency": self.concurrency, "on_full": self.on_full}
        if self.rate is not None:
            body["rate"] = dict(zip(("count", "seconds", "burst"), self.rate, strict=True))
        return Request(USERS[self.user], "PUT", f"/v1/rooms/{IN_ROOMS[self.room]}/limits/{LIMITS[self.name]}", body)

    def answer(self, at: Moment) -> Any:
        named = (IN_ROOMS[self.room], LIMITS[self.name])
        rate = None if self.rate is None else Rate(self.rate[0], self.rate[1], self.rate[2] or self.rate[0])
        limit, is_new = at.model.set_limit(
            at.by(USERS[self.user]), *named, at.now, self.concurrency, rate, self.on_full
        )
        return Told(201 if is_new else 200, (limit.concurrency, rate and rate.burst, limit.on_full, limit.version))

    def seen(self, body: Any) -> Any:
        burst = body["rate"] and body["rate"]["burst"]
        return (body["concurrency"], burst, body["on_full"], body["version"])


@dataclass(frozen=True)
class DeleteLimit(Operation):
    """A limit is deleted that nothing open names."""

    name: int = 0
    room: int = 0
    user: int = 0

    def request(self, model: Treadle, now: datetime) -> Request:
        return Request(USERS[self.user], "DELETE", f"/v1/rooms/{IN_ROOMS[self.room]}/limits/{LIMITS[self.name]}")

    def answer(self, at: Moment) -> Any:
        at.model.delete_limit(at.by(USERS[self.user]), IN_ROOMS[self.room], LIMITS[self.name])
        return Told(204, None)

"""What is done with the credential that a claim gave to a task's code."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tests.model.operations.base import Moment, Operation, Request, run_meant
from tests.model.reference import Treadle
from tests.model.things import User


@dataclass(frozen=True)
class ByRun(Operation):
    """The operation, asked for with a run's credential."""

    task: int
    back: int
    operation: Operation

    def _user(self, model: Treadle) -> User | None:
        meant = run_meant(model, self.task, self.back)
        key = None if meant is None else (meant[0].id, meant[1])
        return User("its code", run=key) if key in model.credentials else None

    def request(self, model: Treadle, now: datetime) -> Request | None:
        user, asked = self._user(model), self.operation.request(model, now)
        return None if user is None or asked is None else replace(asked, user=user)

    def answer(self, at: Moment) -> Any:
        user, inner = self._user(at.then), self.operation
        assert user is not None
        at.model.admit(user, at.now, inner.gate, inner.names(at.then))
        return inner.answer(at.with_asker(user))

    def seen(self, body: Any) -> Any:
        return self.operation.seen(body)

    def gist(self, seen: Any) -> Any:
        return self.operation.gist(seen)

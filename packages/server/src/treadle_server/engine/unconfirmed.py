"""Claims whose commit was not answered: they may be in the database without any worker, and must be returned."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from treadle.wire.ids import WorkerId
from treadle_server.access.principal import SYSTEM
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import ReportMany
from treadle_server.engine.commands.hand_back import hand_back
from treadle_server.engine.pending import Pending
from treadle_server.errors import StoreUnavailable

SURELY_DONE = 2.0
"""Seconds after which a commit whose answer was lost is certain to be done, if it is done at all."""


def give_back(worker_id: WorkerId, claimed: list[Task]) -> ReportMany:
    """Return the command that returns claims whose worker is no longer there to receive them."""
    return hand_back(SYSTEM, worker_id, [(task.id, task.run_id) for task in claimed])


class Unconfirmed:
    """The claims of commits that were not answered, by their intended worker."""

    def __init__(self) -> None:
        self._claims: dict[WorkerId, list[Task]] = {}
        self._listeners: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self._claims)

    def note(self, worker_id: WorkerId, tasks: list[Task]) -> None:
        """Remember tasks that may have been claimed for the worker, to be returned with the next batch."""
        self._claims.setdefault(worker_id, []).extend(tasks)

    def take(self) -> list[Pending]:
        """Take the commands that return the claims, to be applied before the same tasks are claimed again."""
        unconfirmed, self._claims = self._claims, {}
        found = []
        for worker_id, tasks in unconfirmed.items():
            found.append(Pending(give_back(worker_id, tasks)))
            found[-1].answer.add_done_callback(partial(self._note_again, worker_id, tasks))
        return found

    def _note_again(self, worker_id: WorkerId, tasks: list[Task], done: "asyncio.Future[Any]") -> None:
        if not done.cancelled() and isinstance(done.exception(), StoreUnavailable):
            self.note(worker_id, tasks)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a commit was not answered: its changes may be stored, and nobody has heard of them."""
        self._listeners.append(listener)

    def notify(self) -> None:
        """Call the listeners now, and again once the database is certain to have done what it was asked."""
        for listener in self._listeners:
            listener()
            asyncio.get_running_loop().call_later(SURELY_DONE, listener)

"""Claims whose commit was not answered: they may be in the database, and nobody has them, until they are returned."""

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
"""Seconds after which a commit whose answer was lost is surely done, if it is done at all."""


def give_back(worker_id: WorkerId, claimed: list[Task]) -> ReportMany:
    """Return the command by which claims are returned that nobody is there for any more."""
    return hand_back(SYSTEM, worker_id, [(task.id, task.run_id) for task in claimed])


class Unconfirmed:
    """The claims of commits that were not answered, by the worker that they were meant for."""

    def __init__(self) -> None:
        self._claims: dict[WorkerId, list[Task]] = {}
        self._listeners: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self._claims)

    def note(self, worker_id: WorkerId, tasks: list[Task]) -> None:
        """Keep tasks that may have been claimed for the worker, to be returned with the next batch."""
        self._claims.setdefault(worker_id, []).extend(tasks)

    def take(self) -> list[Pending]:
        """Take what returns the claims, before the same tasks are claimed again."""
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
        """Call `listener` when a commit was not answered: what it changed may be there, and nobody was told of it."""
        self._listeners.append(listener)

    def tell(self) -> None:
        """Tell that what a commit changed may be there, now and when the database has surely done what it was asked."""
        for listener in self._listeners:
            listener()
            asyncio.get_running_loop().call_later(SURELY_DONE, listener)

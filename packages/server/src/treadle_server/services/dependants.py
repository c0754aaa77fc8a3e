"""Unblocks tasks whose dependencies have ended, in portions."""

from treadle_server.engine.commands import TellWaiters
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch
from treadle_server.services.base import EngineService
from treadle_server.store.read.dependencies import has_news

LONGEST_SLEEP = 1.0
"""Seconds: the poll behind the wake-up."""

SOON = 0.05
"""Seconds until the next attempt when another server had locked a row."""


class Dependants(EngineService):
    """Wakes with each commit that ended a task that others depend on, or made one run again.

    It runs on each server, for that server's commits; if a server is killed, another one finds what it left.
    """

    name = "dependants"
    everywhere = True
    least_turn = 0.002
    """A chain waits for it at each task: with 0.01, each task of a chain of 300 took 10.5 ms on SQLite and 18.7 on
    PostgreSQL, and now takes 5.8 and 13.0. For 300 concurrent chains, which share its turns, there is no difference.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        engine.hub.listen(self._heard)

    def _heard(self, batch: Batch) -> None:
        # The rarest condition comes last, and only for tasks that others may depend on.
        if batch.has_gap or any(
            (task.completed_at is not None or (task.telling or 0) < 0) and task.is_bound for task, _ in batch.tasks
        ):
            self.wake()

    async def turn(self) -> float:
        """Update a portion of the dependent tasks, and return for how long no more is known to be needed."""
        async with self._engine.store.read_loosely() as connection:
            if not await has_news(connection):
                return LONGEST_SLEEP
        return 0.0 if await self._engine.run(TellWaiters()) else SOON

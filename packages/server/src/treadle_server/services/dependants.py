"""Unblocks tasks whose dependencies have ended, in portions."""

from treadle_server.engine.commands import TellWaiters
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch
from treadle_server.services.base import EngineService
from treadle_server.store.read.dependencies import has_news

LONGEST_SLEEP = 1.0
"""Seconds: the poll behind the wake-up."""

SOON = 0.05
"""Seconds until it looks again where another server was at a row."""


class Dependants(EngineService):
    """Wakes with each commit that ended a task, or had one run again, for which others wait.

    It runs on each server, for what that has committed; what one leaves, because it was killed, another finds.
    """

    name = "dependants"
    everywhere = True
    least_turn = 0.002
    """A chain waits for it at each of its tasks: one of 300 took 10.5 ms each on SQLite and 18.7 on PostgreSQL with
    0.01, and takes 5.8 and 13.0. Of 300 chains side by side, which share its turns, there is no difference.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        engine.hub.listen(self._heard)

    def _heard(self, batch: Batch) -> None:
        # What nearly no task is, is asked last, and of those alone that may have been waited for.
        if batch.has_gap or any(
            (task.completed_at is not None or (task.telling or 0) < 0) and task.is_bound for task, _ in batch.tasks
        ):
            self.wake()

    async def turn(self) -> float:
        """Tell a portion, and return how long nothing else is known to be told."""
        async with self._engine.store.read() as connection:
            if not await has_news(connection):
                return LONGEST_SLEEP
        return 0.0 if await self._engine.run(TellWaiters()) else SOON

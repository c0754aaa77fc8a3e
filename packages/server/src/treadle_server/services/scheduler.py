"""The scheduler: submits the tasks of schedules at their ticks (E10).

With several servers, the leader's scheduler runs; while two believe that they lead, the row's lock decides which of
them creates a task.
"""

from treadle_server.engine.commands import FireDue
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch
from treadle_server.services.base import EngineService
from treadle_server.store.transaction.schedules import next_tick

LONGEST_SLEEP = 1.0
"""Seconds: the poll behind the wake-up."""


CONTENDED = 0.1
"""Seconds until the next check of a tick that another server, or the end of a task, was about to handle."""


class Scheduler(EngineService):
    """Sleeps until the next tick; a schedule that is created, changed or resumed meanwhile shortens the sleep."""

    name = "scheduler"

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        engine.hub.listen(self._heard)

    def _heard(self, batch: Batch) -> None:
        if batch.schedules or batch.has_ticks or batch.has_gap:
            self.wake()

    async def turn(self) -> float:
        """Handle the ticks that have come, and return the seconds until the next one."""
        now = self._engine.clock.now()
        async with self._engine.store.read() as connection:
            tick = await next_tick(connection, now, tokens_at=self._engine.tokens_at())
        if tick is None:
            return LONGEST_SLEEP
        ahead = (tick - now).total_seconds()
        if ahead > 0:
            return min(LONGEST_SLEEP, ahead)
        return 0.0 if await self._engine.run(FireDue()) else CONTENDED

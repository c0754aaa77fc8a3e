"""The promoter: queues scheduled tasks at the moment they are due (E1), and opens limits when they have tokens."""

from contextlib import suppress
from datetime import datetime, timedelta
from math import inf

from treadle.wire.status import Status
from treadle_server.engine.commands import LookAhead, OpenLimits, PromoteDue
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch
from treadle_server.errors import TooManyRequests
from treadle_server.services.base import EngineService
from treadle_server.store.read.limits import next_token
from treadle_server.store.read.tasks import next_due

LONGEST_SLEEP = 1.0
"""Seconds: the poll behind the wake-up."""

AHEAD = 2.0
"""Seconds: how early due tasks are read when there are many, once in each `LONGEST_SLEEP`."""

MOST_PORTIONS = 70
"""Portions of due tasks that are promoted before limits are checked for tokens."""


class Promoter(EngineService):
    """Sleeps until the next task or token is due; one that is added later but due earlier shortens the sleep."""

    name = "promoter"

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._next: datetime | None = None
        self._looked_at = -inf
        engine.hub.listen(self._heard)

    def _heard(self, batch: Batch) -> None:
        if batch.has_gap or (batch.due_at is not None and (self._next is None or batch.due_at < self._next)):
            self.wake()
            return
        for change in batch.tasks:
            if change.task.status is Status.SCHEDULED and (self._next is None or change.task.due_at < self._next):
                self.wake()
                return

    async def _promote(self) -> None:
        """Promote due tasks, in portions, until a portion was not full."""
        for _ in range(MOST_PORTIONS):
            if await self._engine.run(PromoteDue()) < PromoteDue.rows:
                return

    async def _look_ahead(self, due: datetime) -> None:
        """Read tasks ahead that are due soon, until the first of them is due."""
        now, at = self._engine.clock.now(), self._engine.clock.monotonic()
        until = now + timedelta(seconds=AHEAD)
        if due > until or at < self._looked_at + LONGEST_SLEEP:
            return
        self._looked_at = at
        # When the writer is overloaded they are read when they are due: a failed turn would back off beyond that.
        with suppress(TooManyRequests):
            while self._engine.clock.now() < due and await self._engine.run(LookAhead(until)):
                pass

    async def turn(self) -> float:
        """Promote due tasks, open limits that have tokens, and return for how long nothing else is due.

        Neither command is sent without need: one that has nothing to write interrupts the pipeline in which a batch is
        written while the next one is applied.
        """
        # During the read, any newly scheduled task ends the wait that follows, because the reader may not have seen it.
        self._next = None
        async with self._engine.store.read_loosely() as connection:
            self._next = await next_due(connection)
            opens_at = await next_token(connection)
        now = self._engine.clock.now()
        is_due, is_open = (at is not None and at <= now for at in (self._next, opens_at))
        if is_due:
            await self._promote()
        if is_open:
            await self._engine.run(OpenLimits())
        if is_due or is_open:
            return 0.0
        self._next = min((at for at in (self._next, opens_at) if at is not None), default=None)
        if self._next is None:
            return LONGEST_SLEEP
        await self._look_ahead(self._next)
        return min(LONGEST_SLEEP, max(0.0, (self._next - self._engine.clock.now()).total_seconds()))

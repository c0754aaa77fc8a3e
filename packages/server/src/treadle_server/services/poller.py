"""The poll behind the wake-ups: looks for lanes in which something waits that no event told of.

Also while no worker waits: one that asks now and then, and never waits, is to find what others put in.
"""

from treadle_server.services.base import EngineService
from treadle_server.store.base import Tx
from treadle_server.store.transaction.heads import waiting_lanes

EVERY = 1.0
"""Seconds between polls."""


class Poller(EngineService):
    """Wakes the lanes that hold pending tasks."""

    name = "poller"
    everywhere = True

    async def turn(self) -> float:
        """Poll once."""
        async with self._engine.store.read() as connection:
            lanes = await waiting_lanes(Tx(connection, self._engine.store.dialect))
        self._engine.wake(lanes)
        return EVERY

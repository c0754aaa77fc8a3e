"""The poll behind the wake-ups: looks for lanes with waiting tasks that no event has announced.

It also runs while no worker waits: a worker that only polls now and then must find the tasks that others submit.
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
        async with self._engine.store.read_loosely() as connection:
            lanes = await waiting_lanes(Tx(connection, self._engine.store.dialect))
        self._engine.wake(lanes)
        return EVERY

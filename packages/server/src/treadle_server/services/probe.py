"""Checks that the database can be written: with a full disk, reads still succeed."""

from treadle_server.services.base import EngineService
from treadle_server.store.transaction.rows import put_meta

EVERY = 5.0
"""Seconds between tries."""

KEY = "probe"

AFTER_TROUBLE = 65_536
"""Bytes that are written once a batch could not be: a few may fit, those of smaller batches too, where it does not."""


class Probe(EngineService):
    """Writes a row of its own; what the engine could not write last is remembered until that succeeds."""

    name = "store"
    everywhere = True

    async def turn(self) -> float:
        """Write once."""
        trouble = self._engine.trouble
        value = "x" * (AFTER_TROUBLE if trouble else 1)
        async with self._engine.store.write() as tx:
            await put_meta(tx, KEY, value)
        if self._engine.trouble is trouble:
            self._engine.trouble = None
        return EVERY

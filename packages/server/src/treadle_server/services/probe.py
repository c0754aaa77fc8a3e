"""Checks that the database can be written: with a full disk, reads still succeed."""

from treadle_server.services.base import EngineService
from treadle_server.store.transaction.rows import put_meta

EVERY = 5.0
"""Seconds between attempts."""

KEY = "probe"

AFTER_TROUBLE = 65_536
"""Bytes that are written after a batch could not be: a few bytes, or small batches, may still fit where a large one
does not."""


class Probe(EngineService):
    """Writes a row of its own; the engine's last failure to write stays recorded until that succeeds."""

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

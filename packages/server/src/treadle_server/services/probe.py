"""Checks that the database can be written: with a full disk, reads still succeed, and while each commit waits too."""

import asyncio
import logging

from treadle_server.engine.engine import Engine
from treadle_server.errors import StoreUnavailable
from treadle_server.services.base import EngineService
from treadle_server.store.transaction.rows import put_meta

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between attempts."""

PATIENCE = 5.0
"""Seconds that a write may take before the server is said not to be ready."""

KEY = "probe"

AFTER_TROUBLE = 65_536
"""Bytes that are written after a batch could not be: a few bytes, or small batches, may still fit where a large one
does not."""


class Probe(EngineService):
    """Writes a row of its own; the engine's last failure to write stays recorded until that succeeds."""

    name = "store"
    everywhere = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._slow = StoreUnavailable(
            f"a write to the database has not ended for {PATIENCE:.0f} seconds: see whether its disk answers, on"
            " PostgreSQL also its synchronous standby, and what its sessions wait for (pg_stat_activity)"
        )

    async def turn(self) -> float:
        """Write once; while that takes too long it is recorded as trouble, for it may never end."""
        trouble = self._engine.trouble
        value = "x" * (AFTER_TROUBLE if trouble else 1)
        late = asyncio.get_running_loop().call_later(PATIENCE, self._note_late)
        try:
            async with self._engine.store.write() as tx:
                await put_meta(tx, KEY, value)
        finally:
            late.cancel()
            if self._engine.trouble is self._slow:
                self._engine.trouble = None
        if self._engine.trouble is trouble:
            self._engine.trouble = None
        return EVERY

    def _note_late(self) -> None:
        if self._engine.trouble is None:
            log.warning("%s", self._slow.detail)
            self._engine.trouble = self._slow

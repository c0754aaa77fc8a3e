"""PostgreSQL: folds the writers' count deltas into the counts, so that reading counts stays cheap."""

from treadle_server.services.base import EngineService
from treadle_server.store.transaction.counts import fold_counts

EVERY = 1.0
"""Seconds between turns."""

MOST = 10_000
"""Most deltas that one turn folds."""


class Folder(EngineService):
    """Folds the accumulated deltas."""

    name = "folder"

    async def turn(self) -> float:
        """Fold once; again at once when there were more than one turn folds."""
        async with self._engine.store.write() as tx:
            folded = await fold_counts(tx, MOST)
        return 0.0 if folded >= MOST else EVERY

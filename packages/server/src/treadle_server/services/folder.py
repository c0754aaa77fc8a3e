"""PostgreSQL: folds the writers' count deltas into the counts, so that reading counts stays cheap."""

from treadle_server.services.base import EngineService
from treadle_server.store.transaction.counts import fold_counts

EVERY = 1.0
"""Seconds between turns."""

MOST = 10_000
"""Deltas that one turn folds."""


class Folder(EngineService):
    """Folds what has gathered."""

    name = "folder"

    async def turn(self) -> float:
        """Fold once; at once again when there was more than a turn takes."""
        async with self._engine.store.write() as tx:
            folded = await fold_counts(tx, MOST)
        return 0.0 if folded >= MOST else EVERY

"""PostgreSQL: folds the writers' count deltas into the counts, so that reading them stays cheap."""

from treadle_server.engine.engine import Engine
from treadle_server.services.base import Service
from treadle_server.store.transaction.counts import fold_counts

EVERY = 1.0
"""Seconds between turns."""

MOST = 10_000
"""Deltas that one turn folds."""


class Folder(Service):
    """Folds what has gathered."""

    name = "folder"

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    async def turn(self) -> float:
        """Fold once; at once again when there was more than a turn takes."""
        async with self._engine.store.write() as tx:
            folded = await fold_counts(tx, MOST)
        return 0.0 if folded >= MOST else EVERY

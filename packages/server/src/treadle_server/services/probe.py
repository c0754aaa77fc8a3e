"""Tries whether the database can be written: a disk that is full still answers every read."""

from functools import cache
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite

from treadle_server.services.base import EngineService
from treadle_server.store.base import Dialect
from treadle_server.store.tables import meta

EVERY = 5.0
"""Seconds between tries."""

KEY = "probe"

AFTER_TROUBLE = 65_536
"""Bytes that are written once a batch could not be: a few may fit where the next batch does not."""


class Probe(EngineService):
    """Writes a row of its own; what the engine could not write last is remembered until that succeeds."""

    name = "store"
    everywhere = True

    async def turn(self) -> float:
        """Write once."""
        trouble = self._engine.trouble
        value = "x" * (AFTER_TROUBLE if trouble else 1)
        async with self._engine.store.write() as tx:
            await tx.connection.execute(_put(tx.dialect), {"key": KEY, "value": value})
        if self._engine.trouble is trouble:
            self._engine.trouble = None
        return EVERY


@cache
def _put(dialect: Dialect) -> Any:
    """Return what writes the row, whether it is there or not: two servers that start together both find none."""
    module: Any = sqlite if dialect == "sqlite" else postgresql
    statement = module.insert(meta)
    return statement.on_conflict_do_update(index_elements=["key"], set_={"value": statement.excluded.value})

"""How many tasks came to an end and have left it again: rerun, resumed, resolved otherwise, or removed.

With those that stand in an end (`counts.py`) they are all that ever came to it, so that what `/metrics` counts never
shrinks. Nothing is written while no task leaves an end, which is nearly always.
"""

from collections.abc import Mapping

from treadle_server.store.base import Tx
from treadle_server.store.tables import past_outcomes
from treadle_server.store.transaction.rows import insert_tuples

OutcomeKey = tuple[int, str]
"""Lane and status."""


async def add_past_outcomes(tx: Tx, left: Mapping[OutcomeKey, int]) -> None:
    """Add how many tasks left which end.

    On PostgreSQL the rows stay locked until the commit. They are the last that a transaction locks, in one order, so
    that two servers never wait for each other.
    """
    rows = sorted((lane, str(status), n) for (lane, status), n in left.items())
    more = "ON CONFLICT (lane, status) DO UPDATE SET n = past_outcomes.n + excluded.n"
    await insert_tuples(tx, past_outcomes, ("lane", "status", "n"), rows, more)

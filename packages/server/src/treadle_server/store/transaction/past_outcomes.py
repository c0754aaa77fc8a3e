"""How many tasks came to an end and have left it again: rerun, resumed, resolved otherwise, or removed.

With those that stand in an end (`counts.py`) they are all that ever came to it, so that what `/metrics` counts never
shrinks. Nothing is written while no task leaves an end, which is nearly always.
"""

from collections.abc import Mapping
from typing import cast

from treadle_server.store.base import Tx
from treadle_server.store.postgres.connection import DirectConnection
from treadle_server.store.sqlite.writer import InlineConnection

OutcomeKey = tuple[int, str]
"""Lane and status."""

_ADD = """
INSERT INTO past_outcomes (lane, status, n) VALUES (?, ?, ?)
    ON CONFLICT (lane, status) DO UPDATE SET n = n + excluded.n
"""

_PG_ADD = """
INSERT INTO past_outcomes AS kept (lane, status, n)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[])
    ON CONFLICT (lane, status) DO UPDATE SET n = kept.n + excluded.n
"""


async def add_past_outcomes(tx: Tx, left: Mapping[OutcomeKey, int]) -> None:
    """Add how many tasks left which end.

    On PostgreSQL the rows stay locked until the commit. They are the last that a transaction locks, in one order, so
    that two servers never wait for each other.
    """
    rows = sorted((lane, str(status), n) for (lane, status), n in left.items())
    if not rows:
        return
    if isinstance(tx.connection, InlineConnection):
        tx.connection.run_many(_ADD, rows)
        return
    columns = tuple(list(column) for column in zip(*rows, strict=True))
    await cast("DirectConnection", tx.connection).change(_PG_ADD, columns)

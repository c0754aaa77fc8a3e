"""Tasks whose time has come, put into their queues: many in one statement, on each database its own way.

Thousands may have slept until the same moment, and each wants to go on at once. Written one by one, along the columns
in which each differs from what it was, a promotion took the server 42 of the 110 microseconds that such a task takes
until its code has gone on.
"""

from collections.abc import Sequence
from typing import cast

from treadle.wire.status import Reason, Status
from treadle_server.domain.tasks import Task
from treadle_server.store.base import LostUpdate, Tx
from treadle_server.store.postgres.connection import DirectConnection
from treadle_server.store.sqlite.rows import micros
from treadle_server.store.sqlite.writer import InlineConnection

_PROMOTE = """
UPDATE tasks SET status = 'pending', version = version + 1, updated_at = ?, reason = nullif(reason, 'suspended')
  FROM {rows} AS v WHERE seq = v.column1 AND version = v.column2 AND status = 'scheduled'
"""
_PG_PROMOTE = """
UPDATE tasks SET status = $3, version = tasks.version + 1, updated_at = $4, reason = nullif(tasks.reason, $5)
  FROM unnest($1::bigint[], $2::int[]) AS v (seq, was)
 WHERE tasks.seq = ANY (ARRAY[v.seq]) AND tasks.version = v.was AND tasks.status = $6
"""


async def promote(tx: Tx, promoted: Sequence[tuple[Task, int]]) -> None:
    """Write promotions, all of the same time: each task as it is now, and the version that it had before.

    They are counted elsewhere. Raises `LostUpdate` when one was changed by another writer.
    """
    if not promoted:
        return
    rows = [(task.seq, was) for task, was in promoted]
    now = promoted[0][0].updated_at
    if tx.dialect == "postgresql":
        values = [*map(list, zip(*rows, strict=True)), Status.PENDING, now, Reason.SUSPENDED, Status.SCHEDULED]
        changed = await cast("DirectConnection", tx.connection).change(_PG_PROMOTE, values)
    else:
        changed = cast("InlineConnection", tx.connection).run_together(_PROMOTE, (micros(now),), rows)
    if changed != len(rows):
        raise LostUpdate(f"{len(rows) - changed} of {len(rows)} tasks were changed by another writer")

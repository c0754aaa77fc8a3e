"""Renew leases, many in one statement, after an outage or a step of the clock, which are not the workers' fault."""

import json
from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.names import INTERNAL
from treadle.wire.status import LEASED
from treadle_server.store.base import Tx
from treadle_server.store.tables import status_in, tasks
from treadle_server.store.tables.base import IS_LEASED
from treadle_server.store.types import micros

_IS_INTERNAL = f"job_name LIKE '{INTERNAL}:%'"
"""The condition for internal tasks. Their lease counts from the claim: a step of the clock shifts it, unless the claim
was made after the step."""

_SQLITE = f"""
UPDATE tasks SET taken_until =
         CASE WHEN {_IS_INTERNAL}
              THEN min(taken_until + iif(claimed_at <= :now - :jump, :jump, 0), :now + taken_until - claimed_at)
         ELSE :now + CAST(max(lease_seconds, heartbeat_increment) * 1000000 AS INTEGER) END,
       claimed_at = min(claimed_at, :now), started_at = min(started_at, :now)
 WHERE seq IN (SELECT value FROM json_each(:seqs)) AND {IS_LEASED}
"""  # noqa: S608 - the program's own words

_POSTGRES = f"""
UPDATE tasks SET taken_until =
         CASE WHEN {_IS_INTERNAL}
              THEN least(taken_until + CASE WHEN claimed_at <= v.now - v.jump THEN v.jump ELSE interval '0' END,
                         v.now + (taken_until - claimed_at))
         ELSE v.now + greatest(lease_seconds, heartbeat_increment) * interval '1 second' END,
       claimed_at = least(claimed_at, v.now),
       started_at = CASE WHEN started_at IS NOT NULL THEN least(started_at, v.now) END
  FROM (SELECT $1::timestamptz AS now, $2::interval AS jump) AS v
 WHERE seq = ANY($3::bigint[]) AND {IS_LEASED}
"""  # noqa: S608 - likewise


async def leased_seqs(connection: AsyncConnection) -> list[int]:
    """Return the numbers of all claimed and running tasks, ascending."""
    return sorted((await connection.execute(select(tasks.c.seq).where(status_in(*LEASED)))).scalars())


async def restamp(tx: Tx, seqs: Collection[int], *, now: datetime, jump: timedelta) -> int:
    """Renew the leases of the leased ones among the tasks in full from `now`; return how many they are.

    No lease becomes shorter than the longest that a heartbeat may have been granted. `jump` is the step of the clock;
    after a step back, no time of claim or start stays in the future.
    """
    jump = max(jump, timedelta(0))
    if tx.dialect == "sqlite":
        given = {"now": micros(now), "jump": jump // timedelta.resolution, "seqs": json.dumps(list(seqs))}
        return tx.inline.run_many(_SQLITE, [given])
    return await tx.direct.change(_POSTGRES, [now, jump, list(seqs)])

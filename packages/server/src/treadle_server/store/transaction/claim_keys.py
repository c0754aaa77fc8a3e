"""The runs claimed under each `Idempotency-Key`: stored in the claim's transaction, for the length of a lease."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from treadle.wire.ids import TaskId, WorkerId
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import is_among
from treadle_server.store.tables import claim_keys

KeyOf = tuple[WorkerId, str]
"""A worker and one of its keys."""


class KeptClaim(NamedTuple):
    """The runs that were claimed under a key."""

    worker_id: WorkerId
    key: str
    body: bytes
    """A digest of the request's body."""
    runs: list[tuple[TaskId, int]]
    expires_at: datetime


async def kept_claims(tx: Tx, keys: Collection[KeyOf], now: datetime) -> dict[KeyOf, KeptClaim]:
    """Return the claims under the keys that have not expired."""
    if not keys:
        return {}
    among = is_among(claim_keys.c.worker_id, "ids")
    statement = select(claim_keys).where(among, claim_keys.c.expires_at > now)
    found = await tx.connection.execute(statement, {"ids": {worker_id for worker_id, _ in keys}})
    rows = [KeptClaim(*row) for row in found]
    return {
        (row.worker_id, row.key): row._replace(runs=[(task_id, run_id) for task_id, run_id in json.loads(row.runs)])  # type: ignore[arg-type]
        for row in rows
        if (row.worker_id, row.key) in keys
    }


async def keep_claims(tx: Tx, new: Sequence[KeptClaim], now: datetime) -> set[KeyOf]:
    """Store claims, replacing expired ones, and return the keys that were not in use."""
    workers = {row.worker_id for row in new}
    among = is_among(claim_keys.c.worker_id, "ids")
    expired = delete(claim_keys).where(among, claim_keys.c.expires_at <= now)
    await tx.connection.execute(expired, {"ids": workers})
    insert = sqlite.insert if tx.dialect == "sqlite" else postgresql.insert
    kept: set[KeyOf] = set()
    for row in new:
        values = row._asdict() | {"runs": json.dumps(row.runs)}
        statement = insert(claim_keys).values(values).on_conflict_do_nothing().returning(claim_keys.c.key)
        if (await tx.connection.execute(statement)).first() is not None:
            kept.add((row.worker_id, row.key))
    return kept

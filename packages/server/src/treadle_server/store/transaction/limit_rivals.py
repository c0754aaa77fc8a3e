"""Who waits for buckets of limits that let newer tasks supersede older ones, and which runs count against them."""

from collections.abc import Collection

from treadle.wire.ids import TaskId
from treadle.wire.status import LEASED
from treadle_server.domain.limits import BucketId, bucket_ids_of, text_of_bucket_id
from treadle_server.store.base import Tx
from treadle_server.store.tables.base import IS_LEASED
from treadle_server.store.transaction.limit_rows import fetch
from treadle_server.store.transaction.limit_waits import PG_WITH_ONE, PG_WITH_SEVERAL, WITH_ONE, WITH_SEVERAL

_ONE, _PG_ONE, _SEVERAL, _PG_SEVERAL = (
    f"SELECT t.limit_key, t.id {waiting}"
    for waiting in (WITH_ONE, PG_WITH_ONE, f"{WITH_SEVERAL} LIMIT ?", f"{PG_WITH_SEVERAL} LIMIT $2")
)
_RUNS = f"""
SELECT u.bucket, t.id, u.run_id, u.weight
  FROM limit_uses u CROSS JOIN tasks t
 WHERE u.bucket IN (SELECT value FROM json_each(?))
   AND t.seq = u.task_seq AND t.run_id = u.run_id AND t.{IS_LEASED}
 ORDER BY t.claimed_at, t.seq
"""  # noqa: S608 - made of constants
_PG_RUNS = """
SELECT u.bucket, t.id::text, u.run_id, u.weight
  FROM limit_uses u
 CROSS JOIN LATERAL (
       SELECT id, claimed_at, seq FROM tasks
        WHERE tasks.seq = ANY (ARRAY[u.task_seq]) AND tasks.run_id = u.run_id AND tasks.status = ANY ($2::text[])) t
 WHERE u.bucket = ANY ($1::bigint[])
 ORDER BY t.claimed_at, t.seq
"""

RunOf = tuple[TaskId, int, int]
"""A task, its run, and what that counts."""


async def waiting_in(tx: Tx, bucket_ids: Collection[BucketId], most: int) -> dict[int, list[TaskId]]:
    """Return by bucket the tasks that wait for it; of more than `most` not all."""
    found: dict[int, list[TaskId]] = {bucket_id.bucket: [] for bucket_id in bucket_ids}
    texts = [text_of_bucket_id(bucket_id) for bucket_id in sorted(bucket_ids)]
    if texts:
        rows = [*await fetch(tx, _ONE, _PG_ONE, texts, most), *await fetch(tx, _SEVERAL, _PG_SEVERAL, texts, most)]
        for limit_key, task_id in rows:
            for bucket_id in bucket_ids_of(limit_key):
                if bucket_id.bucket in found:
                    found[bucket_id.bucket].append(TaskId(task_id))
    return found


async def running_in(tx: Tx, buckets: Collection[int]) -> dict[int, list[RunOf]]:
    """Return by bucket the open runs that count against it, the first claimed first."""
    found: dict[int, list[RunOf]] = {bucket: [] for bucket in buckets}
    if not found:
        return found
    leased = sorted(str(status) for status in LEASED)
    if tx.dialect == "sqlite":
        rows = await fetch(tx, _RUNS, "", sorted(found))
    else:
        rows = await fetch(tx, "", _PG_RUNS, sorted(found), leased)
    for bucket, task_id, run_id, weight in rows:
        found[bucket].append((TaskId(task_id), run_id, weight))
    return found

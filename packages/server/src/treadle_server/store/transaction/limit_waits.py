"""The tasks that wait for buckets of limits with `on_full`, and the runs that count against these."""

from collections.abc import Collection

from sqlalchemy import select

from treadle.wire.ids import TaskId
from treadle.wire.status import LEASED
from treadle_server.domain.admission import Crowd
from treadle_server.domain.limits import Bucket, BucketId, bucket_ids_of, text_of_bucket_id, weights_of
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import is_among
from treadle_server.store.prepared import Prepared
from treadle_server.store.tables import IN_LINE, SEVERAL_LIMITS, limit_lines, limit_uses
from treadle_server.store.tables.base import IS_LEASED
from treadle_server.store.transaction.limit_rows import fetch

# Tasks with a single limit are found by its bucket, only as many as it takes to know that it is full.
_WITH_ONE = f"""
  FROM json_each(?) p CROSS JOIN tasks t
 WHERE t.seq IN (SELECT seq FROM tasks i
                  WHERE i.limit_key = p.value AND {IN_LINE} LIMIT ?)
"""  # noqa: S608 - made of constants
_PG_WITH_ONE = f"""
  FROM unnest($1::text[]) AS p (bucket_id)
 CROSS JOIN LATERAL (
       SELECT limit_key, limits::text, id::text FROM tasks
        WHERE tasks.limit_key = p.bucket_id AND {IN_LINE} LIMIT $2) t
"""  # noqa: S608 - made of constants
# Tasks with several limits have their own index, which is read whole.
_WITH_SEVERAL = f"""
  FROM tasks t
 WHERE {SEVERAL_LIMITS}
   AND EXISTS (SELECT 1 FROM json_each(?) WHERE instr(' ' || limit_key || ' ', ' ' || value || ' ') > 0)
"""  # noqa: S608 - likewise
_PG_WITH_SEVERAL = f"""
  FROM (SELECT limit_key, limits::text, id::text FROM tasks
         WHERE {SEVERAL_LIMITS} AND string_to_array(limit_key, ' ') && $1::text[]) t
"""  # noqa: S608 - likewise

_ONE, _PG_ONE, _SEVERAL, _PG_SEVERAL = (
    f"SELECT t.limit_key, t.limits, count(*) {waiting} GROUP BY t.limit_key, t.limits"
    for waiting in (_WITH_ONE, _PG_WITH_ONE, _WITH_SEVERAL, _PG_WITH_SEVERAL)
)


async def crowds_of(tx: Tx, bucket_ids: Collection[BucketId], buckets: dict[int, Bucket]) -> dict[int, Crowd]:
    """Return what waits for each bucket; for a full one possibly not everything."""
    crowds = {number: Crowd(bucket) for number, bucket in buckets.items()}
    texts = [text_of_bucket_id(bucket_id) for bucket_id in sorted(bucket_ids) if bucket_id.bucket in crowds]
    most = 1 + max((bucket.room for bucket in buckets.values()), default=0)
    rows = [*await fetch(tx, _ONE, _PG_ONE, texts, most), *await fetch(tx, _SEVERAL, _PG_SEVERAL, texts)]
    for limit_key, limits, count in rows:
        for bucket_id, weight in zip(bucket_ids_of(limit_key), weights_of(limits), strict=True):
            if (crowd := crowds.get(bucket_id.bucket)) is not None:
                crowd.note(weight, count)
    return crowds


async def uses_of(tx: Tx, seqs: Collection[int]) -> list[tuple[int, int, int, int]]:
    """Return the uses of the tasks' runs, as (task's number, run, bucket, weight)."""
    return [(seq, run, bucket, weight) for seq, run, bucket, weight in await _uses.rows(tx, seqs=seqs)]


_u = limit_uses.c
_uses = Prepared(select(_u.task_seq, _u.run_id, _u.bucket, _u.weight).where(is_among(_u.task_seq, "seqs")))
_awaited = Prepared(select(limit_lines.c.bucket).where(is_among(limit_lines.c.bucket, "buckets")).distinct())


async def awaited_among(tx: Tx, buckets: Collection[int]) -> list[int]:
    """Return the buckets that lines wait for."""
    return [number for (number,) in await _awaited.rows(tx, buckets=buckets)]


# Whom a new task may supersede

_ID_OF_ONE, _PG_ID_OF_ONE, _ID_OF_SEVERAL, _PG_ID_OF_SEVERAL = (
    f"SELECT t.limit_key, t.id {waiting}"
    for waiting in (_WITH_ONE, _PG_WITH_ONE, f"{_WITH_SEVERAL} LIMIT ?", f"{_PG_WITH_SEVERAL} LIMIT $2")
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
"""(task's id, run, weight)."""


async def waiting_in(tx: Tx, bucket_ids: Collection[BucketId], most: int) -> dict[int, list[TaskId]]:
    """Return by bucket the tasks that wait for it; when there are more than `most`, not all of them."""
    found: dict[int, list[TaskId]] = {bucket_id.bucket: [] for bucket_id in bucket_ids}
    texts = [text_of_bucket_id(bucket_id) for bucket_id in sorted(bucket_ids)]
    rows = await fetch(tx, _ID_OF_ONE, _PG_ID_OF_ONE, texts, most)
    more = await fetch(tx, _ID_OF_SEVERAL, _PG_ID_OF_SEVERAL, texts, most)
    for limit_key, task_id in (*rows, *more):
        for bucket_id in bucket_ids_of(limit_key):
            if bucket_id.bucket in found:
                found[bucket_id.bucket].append(TaskId(task_id))
    return found


async def running_in(tx: Tx, buckets: Collection[int]) -> dict[int, list[RunOf]]:
    """Return by bucket the open runs that count against it, in order of claim."""
    found: dict[int, list[RunOf]] = {bucket: [] for bucket in buckets}
    if not found:
        return found
    if tx.dialect == "sqlite":
        rows = await fetch(tx, _RUNS, "", sorted(found))
    else:
        rows = await tx.direct.fetch(_PG_RUNS, (sorted(found), sorted(LEASED)))
    for bucket, task_id, run_id, weight in rows:
        found[bucket].append((TaskId(task_id), run_id, weight))
    return found

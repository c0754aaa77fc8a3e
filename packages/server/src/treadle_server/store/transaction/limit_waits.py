"""How many tasks wait for buckets of limits that reject, each with its weight."""

from collections.abc import Collection

from treadle_server.domain.admission import Crowd
from treadle_server.domain.limits import Bucket, BucketId, bucket_ids_of, text_of_bucket_id, weights_of
from treadle_server.store.base import Tx
from treadle_server.store.tables import IN_LINE, SEVERAL_LIMITS
from treadle_server.store.transaction.limit_rows import fetch

# Tasks with one limit are found along its bucket, no more of them than it takes to know that it is full.
_ONE = f"""
SELECT t.limit_key, t.limits, count(*)
  FROM json_each(?) p CROSS JOIN tasks t
 WHERE t.seq IN (SELECT seq FROM tasks i
                  WHERE i.limit_key = p.value AND {IN_LINE} LIMIT ?)
 GROUP BY t.limit_key, t.limits
"""  # noqa: S608 - made of constants
_PG_ONE = f"""
SELECT t.limit_key, t.limits, count(*)
  FROM unnest($1::text[]) AS p (bucket_id)
 CROSS JOIN LATERAL (
       SELECT limit_key, limits::text FROM tasks
        WHERE tasks.limit_key = p.bucket_id AND {IN_LINE} LIMIT $2) t
 GROUP BY t.limit_key, t.limits
"""  # noqa: S608 - made of constants
# Those with several have an index of their own, which is read whole.
_SEVERAL = f"""
SELECT limit_key, limits, count(*) FROM tasks
 WHERE {SEVERAL_LIMITS}
   AND EXISTS (SELECT 1 FROM json_each(?) WHERE instr(' ' || limit_key || ' ', ' ' || value || ' ') > 0)
 GROUP BY limit_key, limits
"""  # noqa: S608 - likewise
_PG_SEVERAL = f"""
SELECT limit_key, limits::text, count(*) FROM tasks
 WHERE {SEVERAL_LIMITS} AND string_to_array(limit_key, ' ') && $1::text[]
 GROUP BY limit_key, limits::text
"""  # noqa: S608 - likewise
_OF_TASKS = "SELECT task_seq, run_id, bucket, weight FROM limit_uses WHERE task_seq {}"


async def crowds_of(tx: Tx, bucket_ids: Collection[BucketId], buckets: dict[int, Bucket]) -> dict[int, Crowd]:
    """Return what waits for each of the buckets; of a full one perhaps not all of it."""
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
    """Return what runs of the tasks count for: task, run, bucket, weight."""
    if not seqs:
        return []
    sqlite, postgres = (
        _OF_TASKS.format(end) for end in ("IN (SELECT value FROM json_each(?))", "= ANY ($1::bigint[])")
    )
    return [(seq, run, bucket, weight) for seq, run, bucket, weight in await fetch(tx, sqlite, postgres, sorted(seqs))]


async def awaited_among(tx: Tx, buckets: Collection[int]) -> list[int]:
    """Return those of the buckets that lines wait for."""
    if not buckets:
        return []
    text = "SELECT DISTINCT bucket FROM limit_lines WHERE bucket {}"
    rows = await fetch(
        tx, text.format("IN (SELECT value FROM json_each(?))"), text.format("= ANY ($1::bigint[])"), sorted(buckets)
    )
    return [number for (number,) in rows]

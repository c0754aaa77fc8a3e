"""What is used of buckets, as a transaction reads it."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import insert

from tests.store.read.conftest import START, StoredTasks, task_row
from treadle_server.domain.limits import BucketId, Caps
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import limit_uses
from treadle_server.store.transaction.limit_rows import read_buckets
from treadle_server.store.transaction.limits_kept import write_limits

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_bucket_that_two_lines_name_is_counted_once(store: SqlStore) -> None:
    caps = Caps(concurrency=5, rate_count=None, rate_seconds=None, rate_burst=None)
    limit = caps.limit("@global", "api", NOW)
    stored = StoredTasks(store)
    await stored.prepare()
    await stored.put([task_row(seq, limit_key=f"{limit.num}:7", due_at=START) for seq in (1, 2)])
    async with store.write() as tx:
        await write_limits(tx, [limit], [], NOW)
        rows = [
            {"task_seq": seq, "run_id": 0, "limit_num": limit.num, "bucket": 7, "weight": weight}
            for seq, weight in ((1, 1), (2, 2))
        ]
        await tx.connection.execute(insert(limit_uses), rows)

    async with store.write() as tx:
        found = await read_buckets(tx, [BucketId(limit.num, bucket) for bucket in (7, 8, 7)], NOW)

    assert {number: bucket.used for number, bucket in found.items()} == {7: 3, 8: 0}

"""Find the tasks that were submitted since an instant. Their numbers ascend as they come in, so no index is needed."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.store.tables import tasks

_ENDS = select(
    # SQLite looks up a single min or max, but would scan all tasks for both in one query: 0.2 s for a million.
    select(func.min(tasks.c.seq)).scalar_subquery().label("low"),
    select(func.max(tasks.c.seq)).scalar_subquery().label("high"),
)


async def first_since(connection: AsyncConnection, at: datetime) -> int:
    """Return the number from which on tasks came in at `at` or later, by binary search.

    Tasks are numbered as they come in, so those with lower numbers came earlier, by the store's clock at that time.
    """
    first, last = (await connection.execute(_ENDS)).one()
    low, high = int(first or 0), int(last or 0) + 1
    while low < high:
        middle = (low + high) // 2
        below = select(tasks.c.seq, tasks.c.created_at).where(tasks.c.seq <= middle, tasks.c.seq >= low)
        row = (await connection.execute(below.order_by(tasks.c.seq.desc()).limit(1))).first()
        if row is None or row.created_at < at:
            low = middle + 1
        else:
            high = int(row.seq)
    return low

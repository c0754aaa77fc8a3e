"""Allocate new keys of tasks, jobs, lanes and targets."""

from collections.abc import Sequence

from sqlalchemy import Column, Integer, cast, func, literal, select

from treadle_server.store.base import Tx
from treadle_server.store.prepared import Prepared
from treadle_server.store.tables import SEQUENCES, jobs, lanes, meta, targets, tasks

ENDLESS = 2**60

_COLUMNS: dict[str, Column[int]] = {
    "task_seq": tasks.c.seq,
    "job_num": jobs.c.num,
    "lane_id": lanes.c.id,
    "target_num": targets.c.num,
}


_GREATEST = {kind: Prepared(select(func.max(column))) for kind, column in _COLUMNS.items()}

# The newest task may have been removed, and its number is not reused.
_GREATEST["task_seq"] = Prepared(
    select(
        func.max(
            func.coalesce(select(func.max(tasks.c.seq)).scalar_subquery(), 0),
            func.coalesce(
                select(cast(meta.c.value, Integer)).where(meta.c.key == literal("task_seq")).scalar_subquery(), 0
            ),
        )
    )
)


async def allocate(tx: Tx, kind: str, count: int) -> list[int]:
    """Return `count` new keys of the kind (task_seq, job_num, lane_id, target_num), ascending.

    SQLite has one writer, so the next key is the greatest plus one, which the rowid's B-tree yields at once.
    """
    if count == 0:
        return []
    if tx.dialect == "sqlite":
        [(greatest,)] = await _GREATEST[kind].rows(tx)
        greatest = greatest or 0
        return list(range(greatest + 1, greatest + 1 + count))
    return await _take(tx, kind, count, is_independent=False)


async def _take(tx: Tx, kind: str, count: int, *, is_independent: bool) -> list[int]:
    [(numbers,)] = await tx.direct.fetch(_NEXT, (SEQUENCES[kind].name, count), is_independent=is_independent)
    return sorted(numbers)


async def coming_seqs(tx: Tx, count: int) -> Sequence[int]:
    """Return at least `count` ascending numbers for new tasks, to be used in turn.

    On SQLite they are practically endless. PostgreSQL's sequences are not transactional, so no transaction is begun for
    them; unused numbers leave gaps.
    """
    if tx.dialect == "sqlite":
        [first] = await allocate(tx, "task_seq", 1)
        return range(first, first + ENDLESS)
    return await _take(tx, "task_seq", count, is_independent=True)


_NEXT = "SELECT array_agg(nextval($1::text::regclass)) FROM generate_series(1, $2::int)"

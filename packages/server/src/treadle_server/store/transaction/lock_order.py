"""The order in which transactions lock rows when several servers write, so that they don't deadlock.

1. jobs, by number (`load.py`) 2. targets, by number (`targets.py`): to decide about a target is to write to its tasks,
so those of all locked tasks 3. tasks, by number, all that may be waited for in one statement 4. holds by task, workers
by id, schedules by id, limits by number, flows 5. the locks of workers' claims, then of limits (`heads.py`,
`limit_rows.py`), and last the past outcomes

Of each kind a transaction locks in one go what it may have to wait for. So the rows to lock are looked up first,
without locks; when they prove to be others under the locks, those are locked late, which is rare, and PostgreSQL
resolves a deadlock. Rows that are found by a condition (due or expired tasks, heads, dependent tasks, tasks to remove)
come after the tasks, and are not waited for: those that another server has locked are left to it.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, select

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import LEASED
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import is_among, is_same
from treadle_server.store.prepared import Prepared
from treadle_server.store.tables import holds, status_in, tasks

_c = tasks.c


class Place(NamedTuple):
    """A task, with the fields that tell what else is to be locked with it."""

    seq: int
    id: TaskId
    job_num: int
    room: str
    target_num: int | None
    unique_key: str | None
    schedule_id: str | None


_PLACES = select(_c.seq, _c.id, _c.job_num, _c.room, _c.target_num, _c.unique_key, _c.schedule_id)
_of_ids = Prepared(_PLACES.where(is_among(_c.id, "ids")))
_of_workers = Prepared(_PLACES.where(is_among(_c.worker_id, "ids"), status_in(*LEASED)))
_held = _PLACES.join_from(holds, tasks, is_same(_c.seq, holds.c.task_seq))
_held_by = Prepared(_held.where(is_among(holds.c.worker_id, "ids")))
_let_go = Prepared(_held.where(holds.c.until <= bindparam("now")))
_AMONG = select(_c.seq).where(is_among(_c.seq, "seqs")).order_by(_c.seq)
_lock = Prepared(_AMONG.with_for_update())
_lock_free = Prepared(_AMONG.with_for_update(skip_locked=True))


async def _places(tx: Tx, statement: Prepared, **given: object) -> list[Place]:
    rows = await statement.rows(tx, **given)
    return [
        Place(seq, TaskId(str(id_)), job, room, target, key, None if schedule is None else str(schedule))
        for seq, id_, job, room, target, key, schedule in rows
    ]


async def places_of(tx: Tx, ids: Collection[TaskId]) -> list[Place]:
    """Return the tasks that exist, without locking them. Like the others here it is used on PostgreSQL only."""
    return await _places(tx, _of_ids, ids=ids)


async def places_at(tx: Tx, workers: Collection[WorkerId], held_by: Collection[WorkerId]) -> list[Place]:
    """Return the claimed and running tasks of `workers`, and the tasks with holds of the workers `held_by`."""
    return await _places(tx, _of_workers, ids=workers) + await _places(tx, _held_by, ids=held_by)


async def places_let_go(tx: Tx, now: datetime) -> list[Place]:
    """Return the tasks with a hold that has ended by `now`."""
    return await _places(tx, _let_go, now=now)


_HOLDERS = """
SELECT id FROM {rows} k CROSS JOIN tasks
 WHERE job_num = k.column1 AND unique_key = k.column2 AND completed_at IS NULL
"""
_PG_HOLDERS = """
SELECT t.id FROM unnest($1::bigint[], $2::text[]) AS k (job_num, unique_key)
 CROSS JOIN LATERAL (
       SELECT id FROM tasks
        WHERE job_num = k.job_num AND unique_key = k.unique_key AND completed_at IS NULL LIMIT 1) t
"""


async def holders_of(tx: Tx, keys: Collection[tuple[int, str]]) -> list[TaskId]:
    """Return the open tasks with one of the keys (job number, unique key), without locking them.

    A single statement for all keys: with one for each, ten thousand keys took a batch six seconds on PostgreSQL.
    """
    if not keys:
        return []
    if tx.dialect == "sqlite":
        return [TaskId(id_) for (id_,) in tx.inline.fetch_together(_HOLDERS, (), sorted(keys))]
    columns = [list(column) for column in zip(*sorted(keys), strict=True)]
    found = await tx.direct.fetch(_PG_HOLDERS, columns)
    return [TaskId(str(id_)) for (id_,) in found]


async def lock_tasks(tx: Tx, seqs: Collection[int]) -> None:
    """Lock these tasks in order; an exclusive writer need not lock anything."""
    if not tx.is_exclusive:
        await _lock.rows(tx, seqs=seqs)


async def free_tasks(tx: Tx, seqs: Collection[int]) -> Collection[int]:
    """Lock the tasks that no other server has locked, and return them; an exclusive writer gets all without locking."""
    if tx.is_exclusive:
        return seqs
    return [seq for (seq,) in await _lock_free.rows(tx, seqs=seqs)]

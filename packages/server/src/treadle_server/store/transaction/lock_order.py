"""In which order a transaction locks rows where other servers write too: who keeps to it never waits in a circle.

1. jobs, by number (`load.py`)
2. targets, by number (`targets.py`): whoever decides about one writes to its tasks, and has those of all that it locks
3. tasks, by number, all that are waited for in one statement
4. holds by task, workers by id, schedules by id, limits by number, flows
5. who claims for a worker, then who decides about limits (`heads.py`, `limit_rows.py`), and last the past outcomes

Within each kind a transaction locks once what it waits for. So what will be locked is looked up first, without locks:
what is found to be otherwise under them is locked late, which is rare, and PostgreSQL resolves it. What is found by a
condition (what is due or expired, heads, who waits for a task, what may be removed) comes after the tasks, and is not
waited for: what another server has is left to it.
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
    """A task, as far as it says what else is to be locked with it."""

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
    """Return those of the tasks that exist, not locked; as the others here for PostgreSQL alone."""
    return await _places(tx, _of_ids, ids=ids)


async def places_at(tx: Tx, workers: Collection[WorkerId], held_by: Collection[WorkerId]) -> list[Place]:
    """Return the tasks that are claimed or running at the workers, and those whose runs `held_by` still hold."""
    return await _places(tx, _of_workers, ids=workers) + await _places(tx, _held_by, ids=held_by)


async def places_let_go(tx: Tx, now: datetime) -> list[Place]:
    """Return the tasks with a hold that is over by `now`."""
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
    """Return the open tasks that hold one of the keys (job number, unique key), not locked.

    It is one statement for all: ten thousand of their own kept a batch in PostgreSQL for six seconds.
    """
    if not keys:
        return []
    if tx.dialect == "sqlite":
        return [TaskId(id_) for (id_,) in tx.inline.fetch_together(_HOLDERS, (), sorted(keys))]
    columns = [list(column) for column in zip(*sorted(keys), strict=True)]
    found = await tx.direct.fetch(_PG_HOLDERS, columns)
    return [TaskId(str(id_)) for (id_,) in found]


async def lock_tasks(tx: Tx, seqs: Collection[int]) -> None:
    """Lock these tasks in their order; where nobody else writes nothing is to be locked."""
    if not tx.is_exclusive:
        await _lock.rows(tx, seqs=seqs)


async def free_tasks(tx: Tx, seqs: Collection[int]) -> Collection[int]:
    """Lock those of the tasks that no other server is at, and return them; all where nobody else writes."""
    if tx.is_exclusive:
        return seqs
    return [seq for (seq,) in await _lock_free.rows(tx, seqs=seqs)]

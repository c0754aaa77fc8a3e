"""The writer's reads and writes of schedules; rows are locked until the commit, as in `load.py`."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, and_, delete, exists, false, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.ids import TaskId
from treadle_server.domain.schedules import SCHEDULE_FIELDS, Schedule
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import is_among
from treadle_server.store.prepared import Prepared
from treadle_server.store.tables import jobs, schedule_ticks, schedules, tasks
from treadle_server.store.transaction.owners import acts
from treadle_server.store.transaction.rows import insert_tuples

_COLUMNS = [schedules.c[name] for name in SCHEDULE_FIELDS]
_ACTIVE = and_(
    schedules.c.deleted_at.is_(None),
    schedules.c.paused.is_(false()),
    schedules.c.next_at.is_not(None),
    exists(select(jobs.c.num).where(jobs.c.num == schedules.c.job_num, jobs.c.deleted_at.is_(None))),
)
_OPEN_INSTANCE = exists(
    select(tasks.c.seq).where(tasks.c.id == schedules.c.last_task_id, tasks.c.completed_at.is_(None))
)

Tick = tuple[str, datetime, int]
"""The schedule's id, the tick, and the `seq` of the task that was made for it."""


def _named(ids: Collection[str], names: Collection[tuple[str, str]]) -> ColumnElement[bool]:
    # An empty part is left out: with an empty list in an OR the planner may read every row.
    by_id = is_among(schedules.c.id, "ids") if ids else false()
    return or_(by_id, tuple_(schedules.c.room, schedules.c.name).in_(sorted(names)) if names else false())


async def schedules_named(tx: Tx, ids: Collection[str], names: Collection[tuple[str, str]]) -> list[Schedule]:
    """Return the schedules with these ids or (room, name), locked, also deleted ones."""
    if not (ids or names):
        return []
    statement = select(*_COLUMNS).where(_named(ids, names)).order_by(schedules.c.id).with_for_update()
    return [Schedule(*row) for row in await tx.connection.execute(statement, {"ids": sorted(ids)})]


async def due_schedules(tx: Tx, now: datetime, most: int, *, tokens_at: datetime | None = None) -> list[Schedule]:
    """Return up to `most` schedules whose tick has come and whose last task has ended.

    Those that another server has locked are left out, as are those whose owner has no valid token at `tokens_at`.
    """
    if not most:
        return []
    due = select(*_COLUMNS).where(*_due(now), acts(schedules.c.owner, tokens_at))
    statement = due.order_by(schedules.c.next_at).limit(most).with_for_update(of=schedules, skip_locked=True)
    return [Schedule(*row) for row in await tx.connection.execute(statement)]


def _due(now: datetime) -> tuple[ColumnElement[bool], ...]:
    return _ACTIVE, schedules.c.next_at <= now, ~_OPEN_INSTANCE


async def jobs_of_schedules(
    tx: Tx, ids: Collection[str], names: Collection[tuple[str, str]], now: datetime, most_due: int
) -> set[int]:
    """Return the job numbers of the named schedules, and of up to `most_due` schedules that may be due."""
    found: set[int] = set()
    if ids or names:
        named = select(schedules.c.job_num).where(_named(ids, names))
        found.update((await tx.connection.execute(named, {"ids": sorted(ids)})).scalars())
    if most_due:
        due = select(schedules.c.job_num).where(*_due(now)).order_by(schedules.c.next_at).limit(most_due)
        found.update((await tx.connection.execute(due)).scalars())
    return found


async def open_instances(tx: Tx, found: Iterable[Schedule]) -> set[TaskId]:
    """Return the ids of the schedules' last tasks that are open.

    To be called after the schedules were locked: whatever creates a task for one holds that lock.
    """
    ids = {one.last_task_id for one in found if one.last_task_id is not None}
    return {TaskId(str(id_)) for (id_,) in await _open.rows(tx, ids=ids)}


_open = Prepared(select(tasks.c.id).where(is_among(tasks.c.id, "ids"), tasks.c.completed_at.is_(None)))


async def forget_ticks(tx: Tx, ids: Collection[str], now: datetime) -> None:
    """Delete the future ticks of these schedules, recorded while the clock was ahead, so that they can come again."""
    if ids:
        statement = delete(schedule_ticks).where(
            is_among(schedule_ticks.c.schedule_id, "ids"), schedule_ticks.c.tick > now
        )
        await tx.connection.execute(statement, {"ids": sorted(ids)})


async def insert_ticks(tx: Tx, ticks: Sequence[Tick]) -> None:
    """Record which task each tick made. Raises `IntegrityError` when a tick has made another task already."""
    await insert_tuples(tx, schedule_ticks, ("schedule_id", "tick", "task_seq"), ticks)


async def next_tick(
    connection: AsyncConnection, now: datetime, *, tokens_at: datetime | None = None
) -> datetime | None:
    """Return when the next schedule is due; None when there is none.

    A tick that came while the last task is open is handled by the transaction that ends that task.
    """
    moves = acts(schedules.c.owner, tokens_at)
    wanted = select(schedules.c.next_at).where(_ACTIVE, or_(schedules.c.next_at > now, ~_OPEN_INSTANCE), moves)
    statement = wanted.order_by(schedules.c.next_at).limit(1)
    return (await connection.execute(statement)).scalar()

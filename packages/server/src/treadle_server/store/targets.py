"""Which task of a target may be claimed: none while it is held, else the first in line.

Only that one has `blocked` false, so a claim never looks at the others, however many wait.
"""

from collections.abc import Collection
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, false, func, or_, select, text, true, update
from sqlalchemy.sql.dml import ReturningUpdate

from treadle.wire.status import Status
from treadle_server.store.base import Dialect, Tx
from treadle_server.store.many import NUMBER, bound, is_among, rows_of
from treadle_server.store.tables import HOLDING, holds, status_in, targets, tasks

_c = tasks.c
_pending = and_(_c.target_num.is_not(None), status_in(Status.PENDING))
_ran = text("tasks.run_id >= 0")
_in_line = (_c.priority.desc(), _c.due_at, _c.seq)

holding = and_(
    _c.target_num.is_not(None),
    text("NOT tasks.settled"),
    text(HOLDING),
    or_(
        status_in(Status.CLAIMED, Status.RUNNING, Status.PAUSED),
        and_(status_in(Status.SCHEDULED), _ran),
        and_(status_in(Status.FAILED), _c.on_failure == "hold"),
    ),
)
"""The condition that a task holds its target: live, paused, failed, or waiting for a retry."""


async def targets_by_name(tx: Tx, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the numbers of the targets (room, name) that exist."""
    found: dict[tuple[str, str], int] = {}
    for room, name in sorted(names):
        statement = select(targets.c.num).where(targets.c.room == room, targets.c.name == name)
        if (num := (await tx.connection.execute(statement)).scalar()) is not None:
            found[room, name] = num
    return found


async def lock_targets(tx: Tx, nums: Collection[int]) -> None:
    """PostgreSQL: let no other server decide about these targets until the commit."""
    if nums and tx.dialect == "postgresql":
        condition = is_among(tx.dialect, targets.c.num, "nums", NUMBER)
        statement = select(targets.c.num).where(condition).order_by(targets.c.num).with_for_update()
        await tx.connection.execute(statement, {"nums": bound(tx.dialect, nums)})


@cache
def _free(dialect: Dialect) -> Select[Any]:
    condition = is_among(dialect, targets.c.num, "nums", NUMBER)
    return select(targets.c.num).where(condition).with_for_update(skip_locked=True)


async def free_targets(tx: Tx, nums: Collection[int]) -> Collection[int]:
    """PostgreSQL: lock those of the targets that no other server is deciding about, and return them.

    A claim holds the row of the task that it takes already, and whoever holds a target may want that row: it must not
    wait for the target, or both would wait for each other (docs/decisions/0007).
    """
    if not nums or tx.dialect != "postgresql":
        return nums
    return set((await tx.connection.execute(_free(tx.dialect), {"nums": bound(tx.dialect, nums)})).scalars())


def head_of(num: ColumnElement[int]) -> ColumnElement[int]:
    """Return the seq of the pending task that gets the target next: one that ran before, else the first in line.

    One whose last run still holds another target, which it had before it was edited, is passed over.
    """
    free = ~exists(select(holds.c.task_seq).where(holds.c.task_seq == _c.seq))
    line = (
        select(_c.seq).where(_c.target_num == num, _pending, free).order_by(*_in_line).limit(1).correlate_except(tasks)
    )
    again, first = line.where(_ran), line
    return func.coalesce(again.scalar_subquery(), first.scalar_subquery())


@cache
def _state(dialect: Dialect) -> Select[Any]:
    rows, num = rows_of(dialect, "nums", NUMBER)
    held = or_(
        exists(select(_c.seq).where(_c.target_num == num, holding)),
        exists(select(holds.c.task_seq).where(holds.c.target_num == num)),
    )
    return select(num, held, head_of(num)).select_from(rows)


@cache
def _unblocked(dialect: Dialect) -> Select[Any]:
    return select(_c.seq, _c.target_num, _c.lane).where(
        is_among(dialect, _c.target_num, "nums", NUMBER), _pending, text("NOT tasks.blocked")
    )


async def settle_targets(tx: Tx, nums: Collection[int]) -> set[int]:
    """Set `blocked` of the targets' pending tasks anew, and return the lanes in which one became claimable."""
    if not nums:
        return set()
    parameters = {"nums": bound(tx.dialect, nums)}
    wanted = set()
    for _num, held, head in await tx.connection.execute(_state(tx.dialect), parameters):
        if head is not None and not held:
            wanted.add(head)
    present = {row.seq for row in await tx.connection.execute(_unblocked(tx.dialect), parameters)}
    await _set_blocked(tx, present - wanted, value=True)
    return await _set_blocked(tx, wanted - present, value=False)


@cache
def _blocking(dialect: Dialect, *, value: bool) -> ReturningUpdate[tuple[int]]:
    return (
        update(tasks)
        .where(is_among(dialect, _c.seq, "seqs", NUMBER), status_in(Status.PENDING))
        .values(blocked=true() if value else false())
        .returning(_c.lane)
    )


async def _set_blocked(tx: Tx, seqs: Collection[int], *, value: bool) -> set[int]:
    if not seqs:
        return set()
    statement = _blocking(tx.dialect, value=value)
    return set((await tx.connection.execute(statement, {"seqs": bound(tx.dialect, seqs)})).scalars())


async def targets_of(tx: Tx, seqs: Collection[int]) -> set[int]:
    """Return the targets of those of the tasks that have one."""
    if not seqs:
        return set()
    statement = select(_c.target_num).where(is_among(tx.dialect, _c.seq, "seqs", NUMBER), _c.target_num.is_not(None))
    return set((await tx.connection.execute(statement, {"seqs": bound(tx.dialect, seqs)})).scalars())


async def settle_tasks(tx: Tx, seqs: Collection[int]) -> set[int]:
    """Block pending tasks without a target whose last run still holds on; return the lanes of those set free."""
    if not seqs:
        return set()
    kept = exists(select(holds.c.task_seq).where(holds.c.task_seq == _c.seq))
    statement = (
        update(tasks)
        .where(
            is_among(tx.dialect, _c.seq, "seqs", NUMBER),
            status_in(Status.PENDING),
            _c.target_num.is_(None),
            _c.blocked != kept,
        )
        .values(blocked=kept)
        .returning(_c.lane, _c.blocked)
    )
    rows = await tx.connection.execute(statement, {"seqs": bound(tx.dialect, seqs)})
    return {lane for lane, blocked in rows if not blocked}

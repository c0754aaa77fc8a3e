"""Decide which task of a target may be claimed: none while it is held, otherwise the first in line.

Only that one has `blocked` false, so a claim never reads the others, however many wait.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, false, func, or_, select, text, true, update

from treadle.wire.status import LEASED, Status
from treadle_server.domain.limits import Line
from treadle_server.domain.tasks import Task
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import NUMBER, is_among, rows_of
from treadle_server.store.prepared import ByKey, Prepared
from treadle_server.store.tables import HOLDING, holds, status_in, targets, tasks
from treadle_server.store.transaction.allocate import allocate
from treadle_server.store.transaction.rows import insert_tuples

_c = tasks.c
_pending = and_(_c.target_num.is_not(None), status_in(Status.PENDING))
_ran = text("tasks.run_id >= 0")
_goes_first = text("tasks.goes_first")
_in_line = (_c.priority.desc(), _c.due_at, _c.seq)

holding = and_(
    _c.target_num.is_not(None),
    text("NOT tasks.settled"),
    text(HOLDING),
    or_(
        status_in(*LEASED, Status.PAUSED),
        and_(status_in(Status.SCHEDULED), _ran),
        and_(status_in(Status.FAILED), _c.on_failure == "hold"),
    ),
)
"""The condition that a task holds its target: live, paused, failed, or waiting for a retry."""

_is_pending = _c.status == Status.PENDING.value
"""Bound, so that tasks looked up by number are not searched among all pending ones."""


def _is_any(rows: Select[Any]) -> ColumnElement[bool]:
    """Return the condition that there is a row; for an EXISTS PostgreSQL may read and hash the whole table."""
    return rows.limit(1).scalar_subquery().is_not(None)


own_hold = select(holds.c.task_seq).where(holds.c.task_seq == _c.seq, holds.c.slot_only.is_(false()))
"""The holds that keep a task's next run waiting."""

keeps_waiting = _is_any(own_hold)
"""The condition that a task has such a hold."""


TargetName = tuple[str, str]
"""A target's room and name."""


_NAME = (targets.c.room, targets.c.name)
_by_name = ByKey(_NAME, select(*_NAME, targets.c.num).where)


async def number_targets(tx: Tx, names: Collection[TargetName]) -> dict[TargetName, int]:
    """Return the numbers of the targets, creating those that don't exist.

    Raises `IntegrityError` when another server has created one meanwhile.
    """
    found = {(room, name): num for room, name, num in await _by_name.found(tx, names)}
    missing = sorted(set(names) - found.keys())
    if missing:
        made = dict(zip(missing, await allocate(tx, "target_num", len(missing)), strict=True))
        await insert_tuples(tx, targets, ("room", "name", "num"), [(*name, num) for name, num in made.items()])
        found |= made
    return found


_NUMBERED = select(targets.c.num).where(is_among(targets.c.num, "nums")).order_by(targets.c.num)
_locked = Prepared(_NUMBERED.with_for_update())
_free = Prepared(_NUMBERED.with_for_update(skip_locked=True))


async def lock_targets(tx: Tx, nums: Collection[int]) -> None:
    """Keep other servers from deciding about these targets until the commit."""
    if not tx.is_exclusive:
        await _locked.rows(tx, nums=nums)


async def free_targets(tx: Tx, nums: Collection[int]) -> Collection[int]:
    """Lock the targets that no other server has locked, and return them.

    A claim or a sweep that has found a task holds its row already, and the server that has the target may want that
    row: if the claim waited for the target, the two would deadlock (docs/decisions/0007).
    """
    if tx.is_exclusive:
        return nums
    return {num for (num,) in await _free.rows(tx, nums=nums)}


async def with_free_targets(tx: Tx, found: list[Task]) -> list[Task]:
    """Return the tasks without a target, and those whose target no other server has locked; lock these targets."""
    free = await free_targets(tx, {task.target_num for task in found if task.target_num is not None})
    return [task for task in found if task.target_num is None or task.target_num in free]


def head_of(num: ColumnElement[int]) -> ColumnElement[int]:
    """Return the `seq` of the pending task that gets the target next: one that goes first, otherwise the first in line.

    A task whose last run still holds another target, from before an edit, is skipped.
    """
    free = ~keeps_waiting
    line = (
        select(_c.seq).where(_c.target_num == num, _pending, free).order_by(*_in_line).limit(1).correlate_except(tasks)
    )
    again, first = line.where(_goes_first), line
    return func.coalesce(again.scalar_subquery(), first.scalar_subquery())


def _state() -> Select[Any]:
    rows, num = rows_of("nums", NUMBER)
    held = or_(
        _is_any(select(_c.seq).where(_c.target_num == num, holding)),
        _is_any(select(holds.c.task_seq).where(holds.c.target_num == num)),
    )
    return select(num, held, head_of(num)).select_from(rows)


class Unblocked(NamedTuple):
    """The changes by a decision about targets."""

    lanes: set[int]
    """Lanes in which a task became claimable."""
    lines: set[Line]
    """Lines in which a task with limits was added or removed."""


PENDING_AMONG = update(tasks).where(is_among(_c.seq, "seqs"), _is_pending).returning(_c.lane, _c.limit_key)
"""An update of the pending ones among the tasks `seqs`."""

_is_open = and_(_pending, text("(tasks.parked OR NOT tasks.blocked)"))


def _open_of_each() -> Select[Any]:
    """Return PostgreSQL's statement, which looks up each target.

    With a list, planners up to version 16 choose to read all pending tasks of a table that they believe to be empty,
    and keep that plan while the table fills.
    """
    rows, num = rows_of("nums", NUMBER)
    found = select(_c.seq).where(_c.target_num == num, _is_open).offset(0).lateral()
    return select(found.c.seq).select_from(rows.join(found, true()))


_states = Prepared(_state())
_claimable = Prepared(select(_c.seq).where(is_among(_c.target_num, "nums"), _is_open), _open_of_each())
_block = Prepared(PENDING_AMONG.values(blocked=true(), parked=false()))
# A task that its target lets through may still have to wait for its limits: `gates.py` decides.
_unblock = Prepared(PENDING_AMONG.values(blocked=_c.limit_key.is_not(None), parked=_c.limit_key.is_not(None)))


async def reblock_targets(tx: Tx, nums: Collection[int]) -> Unblocked:
    """Update `blocked` of the pending tasks of these targets; return where tasks became claimable or changed."""
    states = await _states.rows(tx, nums=nums)
    wanted = {head for _num, held, head in states if head is not None and not held}
    present = {seq for (seq,) in await _claimable.rows(tx, nums=nums)}
    blocked = await _block.rows(tx, seqs=present - wanted)
    free = await _unblock.rows(tx, seqs=wanted - present)
    lines = {Line(lane, limit_key) for lane, limit_key in (*blocked, *free) if limit_key is not None}
    return Unblocked({lane for lane, limit_key in free if limit_key is None}, lines)


async def targets_of(tx: Tx, seqs: Collection[int]) -> set[int]:
    """Return the numbers of the tasks' targets."""
    return {num for (num,) in await _nums.rows(tx, seqs=seqs)}


_nums = Prepared(select(_c.target_num).where(is_among(_c.seq, "seqs"), _c.target_num.is_not(None)))


async def reblock_tasks(tx: Tx, seqs: Collection[int]) -> list[tuple[int, int, bool]]:
    """Block pending tasks without a target while their last runs' holds last.

    Returns the number, lane and `blocked` of each task that this changed.
    """
    return [(seq, lane, blocked) for seq, lane, blocked in await _reblock.rows(tx, seqs=seqs)]


_reblock = Prepared(
    update(tasks)
    .where(
        is_among(_c.seq, "seqs"),
        _is_pending,
        _c.target_num.is_(None),
        _c.limit_key.is_(None),
        _c.blocked != keeps_waiting,
    )
    .values(blocked=keeps_waiting)
    .returning(_c.seq, _c.lane, _c.blocked)
)

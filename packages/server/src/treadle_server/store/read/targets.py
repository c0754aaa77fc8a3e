"""Targets with their holders and waiting tasks: a read takes the same few statements for one target as for a page."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Select,
    case,
    false,
    func,
    literal,
    null,
    or_,
    select,
    union,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import Status
from treadle_server.domain.tasks import NEVER_RUN, Task
from treadle_server.domain.visibility import Visibility
from treadle_server.errors import TargetNotFound
from treadle_server.store.bound_lists import NUMBER, is_among, rows_of
from treadle_server.store.read.limits import limit_waits
from treadle_server.store.read.visibility import within
from treadle_server.store.tables import holds, runs, status_in, targets, tasks
from treadle_server.store.transaction.targets import head_of, holding

_c = tasks.c
_ORDER = ("running", "claimed", "stopping", "paused", "failed", "retry")


@dataclass(frozen=True, slots=True)
class Holder:
    """A task that holds a target."""

    task_id: str
    job_name: str
    status: str
    cause: str
    run_id: int | None
    worker_id: str | None
    since: datetime
    until: datetime | None


@dataclass(slots=True)
class TargetView:
    """A target as it is shown."""

    num: int
    room: str
    name: str
    holders: list[Holder] = field(default_factory=list)
    waiting: int = 0
    next_task_id: str | None = None


_cause = case(
    (status_in(Status.SCHEDULED), "retry"),
    else_=_c.status,
)
_since = case(
    (status_in(Status.CLAIMED), _c.claimed_at),
    (status_in(Status.RUNNING), _c.started_at),
    (status_in(Status.FAILED), _c.completed_at),
    else_=_c.updated_at,
)
_until = case((_c.taken_until.is_not(None), _c.taken_until), (status_in(Status.SCHEDULED), _c.due_at), else_=null())


def _holders() -> CompoundSelect[Any]:
    """Return the statement for the holders of the targets `nums`: tasks by their state, and stopping runs."""
    by_state = select(
        _c.target_num, _c.id, _c.job_name, _c.status, _cause, _c.run_id, _c.worker_id, _since, _until
    ).where(is_among(_c.target_num, "nums"), holding)
    stopping = (
        select(
            holds.c.target_num,
            _c.id,
            _c.job_name,
            _c.status,
            literal("stopping"),
            holds.c.run_id,
            holds.c.worker_id,
            # A run that completed its task is stored in the task's row.
            func.coalesce(runs.c.ended_at, _c.completed_at),
            holds.c.until,
        )
        .join_from(holds, tasks, holds.c.task_seq == _c.seq)
        .outerjoin(runs, (runs.c.task_seq == holds.c.task_seq) & (runs.c.run_id == holds.c.run_id))
        .where(is_among(holds.c.target_num, "nums"))
    )
    return union_all(by_state, stopping)


def _line() -> Select[Any]:
    """Return the statement for the number of waiting tasks of each target in `nums`, and the next one."""
    rows, num = rows_of("nums", NUMBER)
    waiting = select(func.count()).where(_c.target_num == num, _c.target_num.is_not(None), status_in(Status.PENDING))
    next_id = select(_c.id).where(_c.seq == head_of(num)).scalar_subquery()
    return select(num, waiting.scalar_subquery(), next_id).select_from(rows)


HOLDERS, LINE = _holders(), _line()


async def holders(connection: AsyncConnection, nums: Collection[int]) -> dict[int, list[Holder]]:
    """Return the holders by target number, live runs first; free targets are left out."""
    if not nums:
        return {}
    found: dict[int, list[Holder]] = defaultdict(list)
    rows = await connection.execute(HOLDERS, {"nums": sorted(nums)})
    for num, task_id, job_name, status, cause, run_id, worker_id, since, until in rows:
        run = None if run_id == NEVER_RUN else run_id
        found[num].append(Holder(task_id, job_name, status, cause, run, worker_id, since, until))
    for several in found.values():
        several.sort(key=lambda holder: (_ORDER.index(holder.cause), holder.since, holder.task_id))
    return found


class Blocked(NamedTuple):
    """What keeps a pending task waiting."""

    by: list[str]
    limit_opens_at: datetime | None = None
    """When its limit's rate will let it start; None when that is unknown."""


async def blocked_by(connection: AsyncConnection, found: Iterable[Task]) -> dict[int, Blocked]:
    """Return by `seq` what each pending task of `found` waits for: the ids of its target's holders, then its limit.

    Its own id is included, with or without a target, while the code of its last run may still be running.
    """
    found = list(found)
    waiting = {
        task.seq: task.target_num for task in found if task.target_num is not None and task.status is Status.PENDING
    }
    by_target = await holders(connection, set(waiting.values()))
    blockers = {
        seq: dict.fromkeys(holder.task_id for holder in by_target[num])
        for seq, num in waiting.items()
        if num in by_target
    }
    for task in await _held_by_themselves(connection, found):
        blockers.setdefault(task.seq, {})[str(task.id)] = None
    limits = await limit_waits(connection, found)
    for seq, limit in limits.items():
        blockers.setdefault(seq, {})[limit.named] = None
    return {seq: Blocked(list(ids), limits[seq].opens_at if seq in limits else None) for seq, ids in blockers.items()}


async def _held_by_themselves(connection: AsyncConnection, found: Iterable[Task]) -> list[Task]:
    """Return those of the pending tasks whose last run's code may still be running."""
    again = {task.seq: task for task in found if task.status is Status.PENDING and task.blocked and task.has_run}
    if not again:
        return []
    kept = select(holds.c.task_seq).where(is_among(holds.c.task_seq, "seqs"), holds.c.slot_only.is_(false()))
    rows = await connection.execute(kept.distinct(), {"seqs": sorted(again)})
    return [again[seq] for seq in rows.scalars()]


def _held() -> ColumnElement[bool]:
    """Return the condition that a target is held, as a lookup among the few holders, not a test of all targets."""
    by_state = select(_c.target_num).where(holding)
    stopping = select(holds.c.target_num).where(holds.c.target_num.is_not(None))
    return targets.c.num.in_(union(by_state, stopping))


def _where(
    room: str | None, *, held: bool | None, in_use: bool, text: str | None, visibility: Visibility | None
) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if visibility is not None and (room is None or not visibility.admits(room)):
        conditions.append(within(visibility, targets.c.room))
    if room is not None:
        conditions.append(targets.c.room == room)
    if held is not None:
        conditions.append(_held() if held else ~_held())
    if in_use:
        waiting = select(_c.target_num).where(_c.target_num.is_not(None), status_in(Status.PENDING))
        conditions.append(or_(_held(), targets.c.num.in_(waiting)))
    if text is not None:
        conditions.append(targets.c.name.icontains(text, autoescape=True))
    return conditions


async def page(
    connection: AsyncConnection,
    *,
    room: str | None,
    held: bool | None = None,
    in_use: bool = False,
    text: str | None = None,
    visibility: Visibility | None = None,
    limit: int,
    offset: int = 0,
) -> tuple[list[TargetView], int]:
    """Return targets of `room` (None: all) within `visibility`, newest first, and how many match.

    `held` narrows to held targets or to free ones, `in_use` to those that are held or waited for, `text` to names that
    contain it.
    """
    where = _where(room, held=held, in_use=in_use, text=text, visibility=visibility)
    statement = select(targets).where(*where).order_by(targets.c.num.desc()).limit(limit).offset(offset)
    found = await _view(connection, (await connection.execute(statement)).all())
    if not offset and len(found) < limit:
        return found, len(found)
    return found, (await connection.execute(select(func.count()).select_from(targets).where(*where))).scalar_one()


async def get(connection: AsyncConnection, *, room: str, name: str) -> TargetView:
    """Return a room's target. Raises `TargetNotFound` when no task has ever named it in this room."""
    statement = select(targets).where(targets.c.room == room, targets.c.name == name)
    if (row := (await connection.execute(statement)).first()) is None:
        raise TargetNotFound(f"no task of room {room} has ever named the target {name!r}")
    return (await _view(connection, [row]))[0]


async def _view(connection: AsyncConnection, rows: Sequence[Any]) -> list[TargetView]:
    views = {row.num: TargetView(row.num, row.room, row.name) for row in rows}
    if not views:
        return []
    for num, several in (await holders(connection, views.keys())).items():
        views[num].holders = several
    line = await connection.execute(LINE, {"nums": list(views)})
    for num, waiting, next_id in line:
        views[num].waiting, views[num].next_task_id = waiting, next_id
    return list(views.values())

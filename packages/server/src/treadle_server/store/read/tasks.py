"""Tasks: one, a page of the newest, and what holds the target of those that wait."""

import base64
import binascii
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, literal_column, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle.wire.tasks import TaskFilter
from treadle_server.domain.tasks import Task
from treadle_server.errors import TaskNotFound, ValidationFailed
from treadle_server.store.load import to_task
from treadle_server.store.read import filters
from treadle_server.store.read.positions import positions
from treadle_server.store.tables import holds, tasks

_PREFIX = "seq:"


@dataclass(frozen=True, slots=True)
class Seen:
    """A task as it is shown: with its place in the queue and what holds its target."""

    task: Task
    position: int | None = None
    blocked_by: list[str] | None = None


@dataclass(frozen=True, slots=True)
class TaskPage:
    """A part of a list of tasks."""

    items: list[Seen]
    total: int
    total_is_capped: bool
    next_cursor: str | None


async def get(connection: AsyncConnection, task_id: TaskId) -> Task:
    """Return the task. Raises `TaskNotFound`."""
    row = (await connection.execute(select(tasks).where(tasks.c.id == task_id))).first()
    if row is None:
        raise TaskNotFound(f"there is no task {task_id}")
    return to_task(row)


async def see(connection: AsyncConnection, found: Sequence[Task]) -> list[Seen]:
    """Return the tasks with their positions and blockers, in the same order."""
    places = await positions(connection, found)
    blockers = await blocked_by(connection, found)
    return [Seen(task, places.get(task.seq), blockers.get(task.seq)) for task in found]


async def see_one(connection: AsyncConnection, task_id: TaskId) -> Seen:
    """Return the task as it is shown. Raises `TaskNotFound`."""
    return (await see(connection, [await get(connection, task_id)]))[0]


async def page(
    connection: AsyncConnection, wanted: TaskFilter, *, limit: int, offset: int = 0, cursor: str | None = None
) -> TaskPage:
    """Return up to `limit` matching tasks, newest first, behind `cursor` or from `offset` on.

    Raises `ValidationFailed` for a cursor that no page gave.
    """
    total, capped = await filters.total(connection, wanted)
    if limit == 0:
        return TaskPage([], total, capped, None)
    where = await filters.conditions(connection, wanted)
    if cursor is not None:
        where.append(tasks.c.seq < _read_cursor(cursor))
    statement = select(tasks).where(*where).order_by(tasks.c.seq.desc()).limit(limit + 1).offset(offset)
    found = [to_task(row) for row in await connection.execute(statement)]
    more = len(found) > limit
    items = await see(connection, found[:limit])
    return TaskPage(items, total, capped, _write_cursor(found[limit - 1].seq) if more else None)


async def matching_ids(connection: AsyncConnection, wanted: TaskFilter, limit: int) -> list[TaskId]:
    """Return the ids of up to `limit` matching tasks, newest first."""
    where = await filters.conditions(connection, wanted)
    statement = select(tasks.c.id).where(*where).order_by(tasks.c.seq.desc()).limit(limit)
    return list((await connection.execute(statement)).scalars())


def _write_cursor(seq: int) -> str:
    return base64.urlsafe_b64encode(f"{_PREFIX}{seq}".encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> int:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        seq = int(text.removeprefix(_PREFIX)) if text.startswith(_PREFIX) and len(text) < 24 else -1
    except (ValueError, binascii.Error):
        seq = -1
    if not 0 <= seq < 2**63:
        raise ValidationFailed("cursor: not one that a page of this list gave; leave it out to start anew")
    return seq


def _holds_its_target() -> ColumnElement[bool]:
    """Return the condition that a task keeps the others of its target waiting (DESIGN.md, Targets and holds)."""
    return literal_column(
        "tasks.target_num IS NOT NULL AND tasks.status NOT IN ('completed', 'cancelled') AND NOT tasks.settled"
    ) & or_(
        filters.status_is(Status.CLAIMED, Status.RUNNING, Status.PAUSED),
        filters.status_is(Status.FAILED) & (tasks.c.on_failure == "hold"),
        filters.status_is(Status.SCHEDULED) & tasks.c.next_retry_at.is_not(None),
    )


async def blocked_by(connection: AsyncConnection, found: Collection[Task]) -> dict[int, list[str]]:
    """Return for each waiting task among `found`, by seq, the ids of the tasks that hold its target."""
    waiting = {t.seq: t.target_num for t in found if t.target_num is not None and t.status is Status.PENDING}
    if not waiting:
        return {}
    targets = sorted({num for num in waiting.values() if num is not None})
    holders: dict[int, list[tuple[int, str]]] = defaultdict(list)
    live = select(tasks.c.target_num, tasks.c.seq, tasks.c.id).where(
        _holds_its_target(), tasks.c.target_num.in_(targets)
    )
    stopping = (
        select(holds.c.target_num, tasks.c.seq, tasks.c.id)
        .join_from(holds, tasks, holds.c.task_seq == tasks.c.seq)
        .where(holds.c.target_num.in_(targets))
    )
    for statement in (live, stopping):
        for num, seq, task_id in await connection.execute(statement):
            if (seq, task_id) not in holders[num]:
                holders[num].append((seq, task_id))
    return {
        seq: [task_id for holder, task_id in sorted(holders[num]) if holder != seq]
        for seq, num in waiting.items()
        if num is not None and any(holder != seq for holder, _ in holders[num])
    }

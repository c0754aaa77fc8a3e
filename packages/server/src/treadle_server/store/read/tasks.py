"""Tasks: one, several or a page, with their queue positions and what they wait for."""

import base64
import binascii
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.filters import TaskFilter
from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.errors import TaskNotFound, ValidationFailed
from treadle_server.store.bound_lists import is_among, is_found_by
from treadle_server.store.read import filters
from treadle_server.store.read.positions import positions
from treadle_server.store.read.shown import SIZE, fitting, listed, whole
from treadle_server.store.read.targets import Blocked, blocked_by
from treadle_server.store.read.walks import Asked
from treadle_server.store.tables import status_in, tasks
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.transaction.load import to_task

MOST_OF_PAGE = 8_000_000
"""Most characters of payloads, results, checkpoints and errors in a page; its first task is always included."""

_PREFIX = "seq:"


@dataclass(frozen=True, slots=True)
class Seen:
    """A task as it is shown: with its queue position and what it waits for."""

    task: Task
    position: int | None = None
    blocked: Blocked | None = None


@dataclass(frozen=True, slots=True)
class TaskPage:
    """A part of a list of tasks."""

    items: list[Seen]
    total: int
    total_is_capped: bool
    next_cursor: str | None
    is_partial: bool = False
    """Whether it has fewer than `limit` tasks because enough were looked through or read; `next_cursor` continues from
    there."""


async def get(connection: AsyncConnection, task_id: TaskId) -> Task:
    """Return the task with this id, as committed. Raises `TaskNotFound`."""
    statement = select_tasks().where(tasks.c.id == task_id)
    row = (await connection.execute(statement)).first()
    if row is None:
        raise TaskNotFound(f"there is no task {task_id}")
    return to_task(row)


async def by_ids(connection: AsyncConnection, ids: Collection[TaskId]) -> dict[TaskId, Task]:
    """Return the tasks that exist, by id."""
    found = (to_task(row) for row in await _of_ids(connection, select_tasks(), ids))
    return {task.id: task for task in found}


async def states(connection: AsyncConnection, ids: Collection[TaskId]) -> dict[TaskId, tuple[int, str]]:
    """Return the version and status of the tasks that exist, by id."""
    rows = await _of_ids(connection, select(tasks.c.id, tasks.c.version, tasks.c.status), ids)
    return {row.id: (row.version, row.status) for row in rows}


async def _of_ids(connection: AsyncConnection, statement: Select[Any], ids: Collection[TaskId]) -> Sequence[Row[Any]]:
    if not ids:
        return []
    named = statement.where(is_among(tasks.c.id, "ids"))
    rows: Sequence[Row[Any]] = (await connection.execute(named, {"ids": ids})).all()
    return rows


async def see(connection: AsyncConnection, found: Sequence[Task]) -> list[Seen]:
    """Return the tasks with their queue positions and blockers, in the same order."""
    places = await positions(connection, found)
    blockers = await blocked_by(connection, found)
    return [Seen(task, places.get(task.seq), blockers.get(task.seq)) for task in found]


async def page(
    connection: AsyncConnection, wanted: TaskFilter, *, limit: int, offset: int = 0, cursor: str | None = None
) -> TaskPage:
    """Return up to `limit` matching tasks, newest first, after `cursor` or from `offset` on.

    For a filter without an index only as many tasks are checked as a list looks through (`walks.py`), and large tasks
    end the page at `MOST_OF_PAGE` characters.

    Raises `ValidationFailed` for a cursor that is not from a page.
    """
    total, capped = await filters.total(connection, wanted)
    if limit == 0:
        return TaskPage([], total, capped, None)
    where = await filters.conditions(connection, wanted)
    behind = [] if cursor is None else [tasks.c.seq < _read_cursor(cursor)]
    asked = Asked(where.beside_index)
    walk = where.walk(beyond=behind) if where.is_listed or (asked.conditions and not where.is_short) else None
    if walk is None:
        statement = listed(SIZE).where(*where, *behind).limit(limit + 1).offset(offset)
    else:
        those = walk.those(asked, limit=limit + 1, offset=offset)
        statement = listed(SIZE).where(is_found_by(tasks.c.seq, those))
    rows = (await connection.execute(statement.order_by(tasks.c.seq.desc()))).all()
    count = fitting([row.size for row in rows[:limit]], MOST_OF_PAGE)
    found = [to_task(row[:-1]) for row in rows[:count]]
    last = found[-1].seq if len(rows) > count else None
    # Without further conditions the page ends only where the list does.
    end = None if walk is None or not asked.conditions or last is not None else await walk.end(connection)
    items = await see(connection, await whole(connection, found))
    following = end if last is None else last
    cursor = None if following is None else _write_cursor(following)
    is_short = len(found) < limit
    return TaskPage(items, total, capped, cursor, is_partial=is_short and following is not None)


_NEXT_DUE = select(tasks.c.due_at).where(status_in(Status.SCHEDULED)).order_by(tasks.c.due_at).limit(1)


async def next_due(connection: AsyncConnection) -> datetime | None:
    """Return when the next scheduled task is due."""
    return (await connection.execute(_NEXT_DUE)).scalar()


async def matching_ids(connection: AsyncConnection, wanted: TaskFilter, limit: int) -> list[TaskId]:
    """Return the ids of up to `limit` matching tasks, newest first."""
    where = await filters.conditions(connection, wanted)
    newest = tasks.c.seq.desc()
    statement = select(tasks.c.id).where(*where.first(limit, [newest])).order_by(newest).limit(limit)
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
        raise ValidationFailed("invalid cursor: pass one from a page of this list, or none to start at the beginning")
    return seq

"""Schedules with their job's name and how their last task is."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.names import SHARED_ROOMS, JobName
from treadle_server.domain.schedules import SCHEDULE_FIELDS, Schedule
from treadle_server.domain.visibility import Visibility
from treadle_server.errors import ScheduleNotFound
from treadle_server.store.read.visibility import within
from treadle_server.store.tables import jobs, schedules, tasks
from treadle_server.store.transaction.owners import acts, why_still


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as it is shown."""

    schedule: Schedule
    job_name: str
    last_status: str | None
    stands_still: str | None = None
    """Why no tick makes a task though it is not paused."""


def _statement(tokens_at: datetime | None) -> Select[Any]:
    columns = [schedules.c[name] for name in SCHEDULE_FIELDS]
    return (
        select(*columns, jobs.c.room, jobs.c.category, jobs.c.name, tasks.c.status, acts(schedules.c.owner, tokens_at))
        .join_from(schedules, jobs, jobs.c.num == schedules.c.job_num)
        .outerjoin(tasks, tasks.c.id == schedules.c.last_task_id)
    )


def _view(row: Any) -> ScheduleView:
    *values, room, category, name, status, moves = row
    schedule = Schedule(*values)
    still = why_still(schedule.owner, acts=bool(moves))
    return ScheduleView(schedule, str(JobName(room, category, name)), status, still)


def _where(room: str | None, visibility: Visibility | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [schedules.c.deleted_at.is_(None), within(visibility, schedules.c.room)]
    if room is not None:
        conditions.append(schedules.c.room.in_(sorted({room, *SHARED_ROOMS})))
    return conditions


async def page(
    connection: AsyncConnection,
    *,
    room: str | None,
    visibility: Visibility | None = None,
    limit: int,
    offset: int = 0,
    tokens_at: datetime | None = None,
) -> tuple[list[ScheduleView], int]:
    """Return schedules seen from `room` (its own and the shared rooms'; None: all), newest first, and how many.

    With a `visibility` those of its rooms. Their owners need a valid token `tokens_at`; None: they need none.
    """
    where = _where(room, visibility)
    total = (await connection.execute(select(func.count()).select_from(schedules).where(*where))).scalar_one()
    # Ids made at one time don't tell which came first.
    order = (schedules.c.created_at.desc(), schedules.c.id.desc())
    statement = _statement(tokens_at).where(*where).order_by(*order).limit(limit).offset(offset)
    return [_view(row) for row in await connection.execute(statement)], total


async def get(connection: AsyncConnection, *, room: str, name: str, tokens_at: datetime | None = None) -> ScheduleView:
    """Return the schedule of a room; `tokens_at` as in `page`. Raises `ScheduleNotFound`."""
    named = (schedules.c.room == room, schedules.c.name == name, schedules.c.deleted_at.is_(None))
    row = (await connection.execute(_statement(tokens_at).where(*named))).first()
    if row is None:
        raise ScheduleNotFound(f"there is no schedule {name!r} in room {room}")
    return _view(row)

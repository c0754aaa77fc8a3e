"""Schedules with their job's name and how their last task is."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.names import SHARED_ROOMS, JobName
from treadle_server.domain.schedules import SCHEDULE_FIELDS, Schedule
from treadle_server.domain.sight import Sight
from treadle_server.errors import ScheduleNotFound
from treadle_server.store.read.sight import within
from treadle_server.store.tables import jobs, schedules, tasks


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as it is shown."""

    schedule: Schedule
    job_name: str
    last_status: str | None


def _statement() -> Select[Any]:
    columns = [schedules.c[name] for name in SCHEDULE_FIELDS]
    return (
        select(*columns, jobs.c.room, jobs.c.category, jobs.c.name, tasks.c.status)
        .join_from(schedules, jobs, jobs.c.num == schedules.c.job_num)
        .outerjoin(tasks, tasks.c.id == schedules.c.last_task_id)
    )


def _view(row: Any) -> ScheduleView:
    *values, room, category, name, status = row
    return ScheduleView(Schedule(*values), str(JobName(room, category, name)), status)


def _where(room: str | None, sight: Sight | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [schedules.c.deleted_at.is_(None), within(sight, schedules.c.room)]
    if room is not None:
        conditions.append(schedules.c.room.in_(sorted({room, *SHARED_ROOMS})))
    return conditions


async def page(
    connection: AsyncConnection, *, room: str | None, sight: Sight | None = None, limit: int, offset: int = 0
) -> tuple[list[ScheduleView], int]:
    """Return schedules seen from `room` (its own and the shared rooms'; None: all), newest first, and how many.

    With a `sight` those of the rooms that are read.
    """
    where = _where(room, sight)
    total = (await connection.execute(select(func.count()).select_from(schedules).where(*where))).scalar_one()
    # Ids made at one time don't tell which came first.
    order = (schedules.c.created_at.desc(), schedules.c.id.desc())
    statement = _statement().where(*where).order_by(*order).limit(limit).offset(offset)
    return [_view(row) for row in await connection.execute(statement)], total


async def get(connection: AsyncConnection, *, room: str, name: str) -> ScheduleView:
    """Return the schedule of a room. Raises `ScheduleNotFound`."""
    named = (schedules.c.room == room, schedules.c.name == name, schedules.c.deleted_at.is_(None))
    row = (await connection.execute(_statement().where(*named))).first()
    if row is None:
        raise ScheduleNotFound(f"there is no schedule {name!r} in room {room}")
    return _view(row)

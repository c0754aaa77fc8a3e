"""Schedules with their job's name and the status of their last task."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, case, cast, func, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.names import JobName
from treadle_server.domain.schedules import SCHEDULE_FIELDS, Schedule
from treadle_server.domain.visibility import Visibility
from treadle_server.errors import ScheduleNotFound
from treadle_server.store.read.shown import LEFT_OUT, MOST_SHOWN
from treadle_server.store.read.visibility import seen_from, within
from treadle_server.store.tables import jobs, schedules, tasks
from treadle_server.store.transaction.owners import acts, why_still

MOST_TEXT = 8_000_000
"""Most characters of payloads and options in one list; beyond that they are left out."""

VALUES = ("payload", "template")
"""The fields of a schedule that are JSON of any size."""


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as it is shown."""

    schedule: Schedule
    job_name: str
    last_status: str | None
    stands_still: str | None = None
    """Why its ticks make no tasks though it is not paused."""


def _statement(tokens_at: datetime | None, *, is_short: bool = False) -> Select[Any]:
    columns = [_short(name) if is_short and name in VALUES else schedules.c[name] for name in SCHEDULE_FIELDS]
    return (
        select(*columns, jobs.c.room, jobs.c.category, jobs.c.name, tasks.c.status, acts(schedules.c.owner, tokens_at))
        .join_from(schedules, jobs, jobs.c.num == schedules.c.job_num)
        .outerjoin(tasks, tasks.c.id == schedules.c.last_task_id)
    )


def _short(name: str) -> ColumnElement[Any]:
    """Return the value as a list shows it: left out if it is long, or if the values before it are too long together."""
    text = {value: cast(schedules.c[value], Text) for value in VALUES}
    sizes = [case((func.length(one) > MOST_SHOWN, literal(0)), else_=func.length(one)) for one in text.values()]
    so_far = func.sum(sizes[0] + sizes[1]).over(order_by=_NEWEST)
    is_long = or_(func.length(text[name]) > MOST_SHOWN, so_far > MOST_TEXT)
    return case((is_long, LEFT_OUT), else_=text[name]).label(name)


# Ids alone are not enough: those made at the same time don't tell which came first.
_NEWEST = (schedules.c.created_at.desc(), schedules.c.id.desc())


def left_out(schedule: Schedule) -> list[str]:
    """Return the names of the values that a list leaves out, as submits call them."""
    values = {"payload": schedule.payload, "options": schedule.template}
    return [name for name, text in values.items() if text == LEFT_OUT]


def _view(row: Any) -> ScheduleView:
    *values, room, category, name, status, moves = row
    schedule = Schedule(*values)
    still = why_still(schedule.owner, acts=bool(moves))
    return ScheduleView(schedule, str(JobName(room, category, name)), status, still)


# Stands twice: every read's `page` spells out the parameters that they share.
async def page(
    connection: AsyncConnection,
    *,
    room: str | None,
    visibility: Visibility | None = None,
    limit: int,
    offset: int = 0,
    tokens_at: datetime | None = None,
    is_short: bool = False,
) -> tuple[list[ScheduleView], int]:
    """Return schedules seen from `room` (its own and the shared rooms'; None: all), newest first, and their number.

    `visibility` narrows them to its rooms. To make tasks, their owners need a token that is valid `tokens_at`; None
    means that they need none. With `is_short` large values are left out, and all beyond `MOST_TEXT` characters (see
    `left_out`).
    """
    where = (schedules.c.deleted_at.is_(None), within(visibility, schedules.c.room), seen_from(room, schedules.c.room))
    total = (await connection.execute(select(func.count()).select_from(schedules).where(*where))).scalar_one()
    statement = _statement(tokens_at, is_short=is_short).where(*where)
    statement = statement.order_by(*_NEWEST).limit(limit).offset(offset)
    return [_view(row) for row in await connection.execute(statement)], total


async def get(connection: AsyncConnection, *, room: str, name: str, tokens_at: datetime | None = None) -> ScheduleView:
    """Return the schedule of a room; `tokens_at` as in `page`. Raises `ScheduleNotFound`."""
    named = (schedules.c.room == room, schedules.c.name == name, schedules.c.deleted_at.is_(None))
    row = (await connection.execute(_statement(tokens_at).where(*named))).first()
    if row is None:
        raise ScheduleNotFound(f"there is no schedule {name!r} in room {room}")
    return _view(row)

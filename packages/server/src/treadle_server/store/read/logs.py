"""Log lines of tasks: of one task, and of several together."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, func, select, tuple_, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.filters import TaskFilter
from treadle.wire.runs import LINES_AT_ONCE
from treadle.wire.status import LEASED
from treadle_server.store.read import filters
from treadle_server.store.read.orders import ORDERS
from treadle_server.store.read.sources import Source
from treadle_server.store.tables import task_logs, tasks

MOST_CHARACTERS = 4_000_000
"""Most characters of a task's lines in one answer; the last line is always there in full."""

_c = task_logs.c


class LogRow(NamedTuple):
    """A log line of a run, with its number, which ascends with time."""

    task_seq: int
    run_id: int
    line: int
    at: datetime
    level: str
    message: str


class LoggedTask(NamedTuple):
    """A task whose lines are read."""

    seq: int
    id: str
    job_name: str


async def of_task(connection: AsyncConnection, task_seq: int, *, most: int = LINES_AT_ONCE) -> list[LogRow]:
    """Return the last `most` lines of the task, in the order of logging."""
    found = await connection.execute(_last(task_seq, None, most))
    return sorted((LogRow(*row) for row in found), key=lambda line: (line.run_id, line.line))


async def behind(connection: AsyncConnection, read: Mapping[int, tuple[int, int] | None]) -> list[LogRow]:
    """Return the lines of each task after the given run and line, or for None its last lines, with one statement.

    The lines of all tasks are sorted together in the order of logging.
    """
    if not read:
        return []
    parts = [_last(seq, place, LINES_AT_ONCE) for seq, place in read.items()]
    found = await connection.execute(union_all(*parts) if len(parts) > 1 else parts[0])
    return sorted((LogRow(*row) for row in found), key=lambda line: (line.line, line.task_seq))


def _last(task_seq: int, place: tuple[int, int] | None, most: int) -> Select[Any]:
    """Return the last lines of a task after a place, at most `most` lines and some `MOST_CHARACTERS`."""
    order = (_c.run_id.desc(), _c.line.desc())
    of_task = select(_c.task_seq, _c.run_id, _c.line, _c.at, _c.level, _c.message).where(_c.task_seq == task_seq)
    if place is not None:
        of_task = of_task.where(tuple_(_c.run_id, _c.line) > tuple_(*place))
    last = of_task.order_by(*order).limit(most).subquery()
    length = func.length(last.c.message)
    newer = func.sum(length).over(order_by=(last.c.run_id.desc(), last.c.line.desc())) - length
    measured = select(last, newer.label("newer")).subquery()
    kept = [column for column in measured.c if column.name != "newer"]
    return select(*kept).where(measured.c.newer < MOST_CHARACTERS)


async def changed_last(connection: AsyncConnection, wanted: TaskFilter, *, limit: int) -> tuple[list[LoggedTask], bool]:
    """Return the running ones of the matching tasks, then the last changed, up to `limit`; and whether there are more.

    Running tasks are looked up separately, and come first: they are the ones that log, and in a long or busy queue they
    may be older than all that a list looks through.
    """
    found: dict[LoggedTask, tuple[bool, datetime]] = {}
    is_cut = False
    statuses = set(LEASED if wanted.status is None else wanted.status)
    running = wanted.model_copy(update={"status": sorted(statuses & LEASED)})
    for one in (running, wanted) if statuses & LEASED else (wanted,):
        where = await filters.conditions(connection, one)
        [segment] = ORDERS["updated"]
        source = await Source.of(connection, one, where, segment, (), backward=False)
        columns = (tasks.c.seq, tasks.c.id, tasks.c.job_name, tasks.c.updated_at)
        statement = source.tasks(limit=limit + 1, offset=0).with_only_columns(*columns)
        for seq, task_id, job_name, updated_at in await connection.execute(statement):
            found.setdefault(LoggedTask(seq, task_id, job_name), (one is running, updated_at))
        is_cut = await source.is_cut(connection)
    newest = sorted(found, key=lambda task: (*found[task], task.seq), reverse=True)
    return newest[:limit], is_cut or len(newest) > limit

"""What the code of a task logged."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.store.tables import task_logs

MOST = 1000
"""The lines that an answer holds: the last ones."""


@dataclass(frozen=True, slots=True)
class LogView:
    """A kept line."""

    run_id: int
    at: datetime
    level: str
    message: str


async def of_task(connection: AsyncConnection, task_seq: int, *, most: int = MOST) -> list[LogView]:
    """Return the last `most` lines of the task, in the order in which they were logged."""
    statement = (
        select(task_logs.c.run_id, task_logs.c.at, task_logs.c.level, task_logs.c.message)
        .where(task_logs.c.task_seq == task_seq)
        .order_by(task_logs.c.run_id.desc(), task_logs.c.line.desc())
        .limit(most)
    )
    rows = [LogView(*row) for row in await connection.execute(statement)]
    return rows[::-1]

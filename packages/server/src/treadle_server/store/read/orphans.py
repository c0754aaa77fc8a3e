"""Jobs that nobody may need any more; the writer looks again before it deletes one."""

from sqlalchemy import exists, false, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.names import INTERNAL
from treadle_server.store.tables import jobs, schedules, worker_jobs


async def possible_orphans(connection: AsyncConnection) -> list[int]:
    """Return the active jobs that are not retained and have neither worker nor schedule."""
    statement = select(jobs.c.num).where(
        jobs.c.deleted_at.is_(None),
        jobs.c.retain.is_(false()),
        jobs.c.room != INTERNAL,
        ~exists(select(worker_jobs.c.job_num).where(worker_jobs.c.job_num == jobs.c.num)),
        ~exists(select(schedules.c.id).where(schedules.c.job_num == jobs.c.num, schedules.c.deleted_at.is_(None))),
    )
    return list((await connection.execute(statement)).scalars())

"""Whether each task stands in the lists of its job and room, and nothing else does."""

from sqlalchemy import Connection, and_, func, inspect, select

from treadle.wire.findings import Finding
from treadle_server.store.tables import task_listings, tasks

_SAME = and_(
    tasks.c.job_num == task_listings.c.job_num,
    tasks.c.seq == task_listings.c.task_seq,
    tasks.c.room == task_listings.c.room,
)
_MISSING = (
    select(func.count()).select_from(tasks).outerjoin(task_listings, _SAME).where(task_listings.c.task_seq.is_(None))
)
_STALE = select(func.count()).select_from(task_listings).outerjoin(tasks, _SAME).where(tasks.c.seq.is_(None))


def look(connection: Connection) -> list[Finding]:
    """Look for each task in the lists, and for each that is listed among the tasks, both in one snapshot."""
    if task_listings.name not in inspect(connection).get_table_names():
        return [Finding("lists", "ok", "nothing is listed yet")]
    missing, stale = (connection.execute(statement).scalar_one() for statement in (_MISSING, _STALE))
    if missing or stale:
        return [Finding("lists", "fail", f"the lists of jobs and rooms are not what tasks there are ({missing:,} are"
                        f" missing, {stale:,} should not be there): who asks for a job's or a room's tasks is misled",
                        "stop the servers and list anew, as docs/operations.md says; and report it, for only a change"
                        " by hand should do that")]  # fmt: skip
    return [Finding("lists", "ok", "each task stands in the lists of its job and room")]

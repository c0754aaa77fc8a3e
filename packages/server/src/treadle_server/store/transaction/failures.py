"""Which runs failed with what and where: a row for each, written with the run and removed with its task."""

from collections.abc import Iterable

from sqlalchemy import insert

from treadle_server.domain.failures import is_failure, key_of, kind_of, place_of
from treadle_server.domain.tasks import Run, Task
from treadle_server.store.base import Tx
from treadle_server.store.tables import failures


async def insert_failures(tx: Tx, ended: Iterable[tuple[Task, Run]]) -> None:
    """Keep of those runs that failed what it was and where; each comes with its task as it is now."""
    rows = []
    for task, run in ended:
        if is_failure(task, run):
            kind, place = kind_of(run.error, run.reason), place_of(run.traceback, task.job_name)
            rows.append(
                {
                    "task_seq": run.task_seq,
                    "run_id": run.run_id,
                    "key": key_of(kind, place),
                    "at": run.ended_at,
                    "job_num": task.job_num,
                    "room": task.room,
                    "is_final": task.completed_at is not None,
                    "kind": kind,
                    "place": place,
                }
            )
    if rows:
        await tx.connection.execute(insert(failures), rows)

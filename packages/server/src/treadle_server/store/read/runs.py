"""The runs of a task: those that are over, and the open one, which stands in the task's row."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.ids import WorkerId
from treadle_server.domain.tasks import RUN_FIELDS, Task
from treadle_server.domain.usage import usage_of_run
from treadle_server.store.tables import runs, workers

_COLUMNS = [runs.c[name] for name in RUN_FIELDS]


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as it is shown."""

    task_id: str
    run_id: int
    status: str
    """An outcome, or `claimed` or `running`."""
    reason: str | None
    error: str | None
    traceback: str | None
    worker_id: str | None
    worker_name: str | None
    usage: float | None
    claimed_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


async def of_task(connection: AsyncConnection, task: Task) -> list[RunView]:
    """Return the task's runs, the first one first; the last may be open. A worker that was removed has no name."""
    statement = (
        select(*_COLUMNS, workers.c.name.label("worker_name"))
        .join_from(runs, workers, workers.c.id == runs.c.worker_id, isouter=True)
        .where(runs.c.task_seq == task.seq)
        .order_by(runs.c.run_id)
    )
    found = [
        RunView(
            task_id=task.id,
            run_id=row.run_id,
            status=row.status,
            reason=row.reason,
            error=row.error,
            traceback=row.traceback,
            worker_id=row.worker_id,
            worker_name=row.worker_name,
            usage=row.usage,
            claimed_at=row.claimed_at,
            started_at=row.started_at,
            ended_at=row.ended_at,
        )
        for row in await connection.execute(statement)
    ]
    if task.is_leased and task.claimed_at is not None:
        found.append(await _open(connection, task, task.claimed_at))
    return found


async def workers_of(connection: AsyncConnection, task: Task, run_id: int | None) -> set[WorkerId]:
    """Return the workers of the task's last run, and of the run with this number if it is over."""
    found = {task.worker_id} if task.worker_id is not None else set()
    if run_id is not None:
        statement = select(runs.c.worker_id).where(runs.c.task_seq == task.seq, runs.c.run_id == run_id)
        if (worker_id := (await connection.execute(statement)).scalar()) is not None:
            found.add(WorkerId(worker_id))
    return found


async def _open(connection: AsyncConnection, task: Task, claimed_at: datetime) -> RunView:
    name = (await connection.execute(select(workers.c.name).where(workers.c.id == task.worker_id))).scalar()
    return RunView(
        task_id=task.id,
        run_id=task.run_id,
        status=str(task.status),
        reason=None,
        error=None,
        traceback=None,
        worker_id=task.worker_id,
        worker_name=name,
        usage=usage_of_run(task),
        claimed_at=claimed_at,
        started_at=task.started_at,
        ended_at=None,
    )

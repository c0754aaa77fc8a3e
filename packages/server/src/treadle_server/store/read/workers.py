"""Workers with the jobs that they serve and the runs that they hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.names import JobName
from treadle.wire.status import LEASED
from treadle_server.domain.jobs import WORKER_FIELDS, Worker
from treadle_server.domain.visibility import OwnWorkers, Visibility
from treadle_server.errors import WorkerNotFound
from treadle_server.store.read.visibility import reads, seen_from, workers_within
from treadle_server.store.tables import holds, jobs, status_in, tasks, worker_jobs, workers
from treadle_server.store.transaction.load import to_worker
from treadle_server.store.types import Instant

_COLUMNS = [workers.c[name] for name in WORKER_FIELDS]
_BY_ID = select(*_COLUMNS).where(workers.c.id == bindparam("worker_id"))


MOST_RUNNING = 100
"""Most runs of a worker that are listed."""


class HeldView(NamedTuple):
    """A run that a worker holds, with the fields of `HeldRun`."""

    task_id: str
    run_id: int
    job_name: str
    since: datetime
    """When it started, or was claimed if it has not."""


@dataclass(slots=True)
class WorkerView:
    """A worker as it is shown."""

    worker: Worker
    jobs: list[str] = field(default_factory=list)
    running: list[HeldView] = field(default_factory=list)
    """The first `MOST_RUNNING` of its runs."""
    running_count: int = 0
    used: int = 0


async def get(connection: AsyncConnection, worker_id: WorkerId) -> Worker:
    """Return the worker, without the jobs that it serves. Raises `WorkerNotFound`."""
    if (worker := await find(connection, worker_id)) is None:
        raise WorkerNotFound(f"there is no worker {worker_id}")
    return worker


async def find(connection: AsyncConnection, worker_id: WorkerId) -> Worker | None:
    """Return the worker, without the jobs that it serves; None when it does not exist."""
    row = (await connection.execute(_BY_ID, {"worker_id": worker_id})).first()
    return None if row is None else to_worker(row)


async def page(
    connection: AsyncConnection,
    *,
    room: str | None = None,
    visibility: Visibility | None = None,
    own: OwnWorkers | None = None,
    limit: int,
    offset: int = 0,
) -> tuple[list[Worker], int]:
    """Return the workers that serve a job seen from `room` (None: all), newest first, and how many there are.

    Visible are workers that serve a job visible within `visibility`, and the user's `own`.
    """
    where = [workers_within(visibility, own), reads(visibility, room)]
    if room is not None:
        serving = select(worker_jobs.c.worker_id).join(jobs, jobs.c.num == worker_jobs.c.job_num)
        where.append(workers.c.id.in_(serving.where(seen_from(room, jobs.c.room))))
    statement = select(*_COLUMNS).where(*where).order_by(workers.c.created_at.desc(), workers.c.id.desc())
    found = [to_worker(row) for row in await connection.execute(statement.limit(limit).offset(offset))]
    if not offset and len(found) < limit:
        return found, len(found)
    return found, (await connection.execute(select(func.count()).select_from(workers).where(*where))).scalar_one()


async def view(
    connection: AsyncConnection, found: Sequence[Worker], visibility: Visibility | None = None
) -> list[WorkerView]:
    """Return the workers with their jobs, their runs and the weight of these.

    Only jobs and runs that are visible within `visibility` are named.
    """
    views = {worker.id: WorkerView(worker) for worker in found}
    if not views:
        return []
    ids = sorted(views)
    served = (
        select(worker_jobs.c.worker_id, jobs.c.num, jobs.c.room, jobs.c.category, jobs.c.name)
        .join_from(worker_jobs, jobs, jobs.c.num == worker_jobs.c.job_num)
        .where(worker_jobs.c.worker_id.in_(ids), jobs.c.deleted_at.is_(None))
        .order_by(jobs.c.num)
    )
    for worker_id, num, room, category, name in await connection.execute(served):
        if visibility is not None and not visibility.admits_job(room):
            continue
        views[worker_id].worker.jobs.add(num)
        views[worker_id].jobs.append(str(JobName(room, category, name)))
    running = (
        select(
            tasks.c.worker_id,
            tasks.c.weight,
            tasks.c.room,
            tasks.c.id,
            tasks.c.run_id,
            tasks.c.job_name,
            func.coalesce(tasks.c.started_at, tasks.c.claimed_at, type_=Instant()),
        )
        .where(status_in(*LEASED), tasks.c.worker_id.in_(ids))
        .order_by(tasks.c.seq)
    )
    for worker_id, weight, room, *held in await connection.execute(running):
        view = views[worker_id]
        view.running_count += 1
        view.used += weight
        if len(view.running) < MOST_RUNNING and (visibility is None or visibility.admits(room)):
            view.running.append(HeldView(*held))
    stopping = select(holds.c.worker_id, func.sum(holds.c.weight)).where(holds.c.worker_id.in_(ids))
    for worker_id, weight in await connection.execute(stopping.group_by(holds.c.worker_id)):
        views[worker_id].used += int(weight)
    return [views[worker.id] for worker in found]


async def is_seen(
    connection: AsyncConnection, worker_id: WorkerId, visibility: Visibility, own: OwnWorkers | None
) -> bool:
    """Return whether the worker exists and `page` would list it."""
    statement = select(workers.c.id).where(workers.c.id == worker_id, workers_within(visibility, own))
    return (await connection.execute(statement)).first() is not None


async def holding(connection: AsyncConnection, worker_id: WorkerId) -> dict[tuple[TaskId, int], int]:
    """Return the weight of each of the worker's leased runs, by (task id, run id)."""
    statement = select(tasks.c.id, tasks.c.run_id, tasks.c.weight).where(
        tasks.c.worker_id == worker_id, status_in(*LEASED)
    )
    return {(TaskId(task_id), run_id): weight for task_id, run_id, weight in await connection.execute(statement)}


async def stopping(connection: AsyncConnection, worker_id: WorkerId) -> dict[tuple[TaskId, int], int]:
    """Return the weight of each run, by (task id, run id), that is over but whose code the worker may still run."""
    statement = (
        select(tasks.c.id, holds.c.run_id, holds.c.weight)
        .join_from(holds, tasks, holds.c.task_seq == tasks.c.seq)
        .where(holds.c.worker_id == worker_id)
    )
    return {(TaskId(task_id), run_id): weight for task_id, run_id, weight in await connection.execute(statement)}

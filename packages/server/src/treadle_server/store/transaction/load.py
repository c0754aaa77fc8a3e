"""The writer's reads before it decides: rows by key, locked on PostgreSQL until the commit.

SQLite has one writer, which holds the write lock from BEGIN IMMEDIATE on. PostgreSQL may have several servers, so every
row that a command may change is locked, in a fixed order (`lock_order.py`), so that two writers never deadlock.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, cast

from sqlalchemy import BindParameter, ColumnElement, Row, Select, bindparam, select, tuple_

from treadle.wire.ids import JobId, TaskId, WorkerId
from treadle.wire.status import LEASED, Outcome, WorkerState
from treadle_server.domain.jobs import JOB_FIELDS, WORKER_FIELDS, Job, Lane, Worker
from treadle_server.domain.tasks import Hold, Run, Task
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import is_among, is_same
from treadle_server.store.past_runs import past_runs
from treadle_server.store.prepared import ByKey, Prepared
from treadle_server.store.tables import holds, jobs, lanes, schedules, status_in, tasks, worker_jobs, workers
from treadle_server.store.task_rows import REASON, STATUS, WHOLE, locked, select_tasks
from treadle_server.store.transaction import limits
from treadle_server.store.transaction.lock_order import holders_of
from treadle_server.store.transaction.targets import with_free_targets
from treadle_server.store.types import instant


def to_task(row: Iterable[Any]) -> Task:
    """Return the `Task` of a whole row."""
    task = Task(*row)
    task.status = STATUS[task.status]
    task.reason = REASON[task.reason]
    return task


def to_run(row: Iterable[Any]) -> Run:
    """Return the `Run` of a row of `past_runs`."""
    values = list(row)
    values[2] = Outcome(values[2])
    values[3] = REASON[values[3]]
    return Run(*values)


_tasks_by_id = Prepared(locked(select_tasks().where(is_among(tasks.c.id, "ids")).order_by(tasks.c.seq)))


async def tasks_by_id(tx: Tx, ids: Collection[TaskId]) -> list[Task]:
    """Return the tasks that exist, locked, in order of arrival."""
    return WHOLE.of(tx.dialect, await _tasks_by_id.rows(tx, ids=ids))


async def tasks_by_unique_key(tx: Tx, keys: Collection[tuple[int, str]]) -> list[Task]:
    """Return the open tasks with one of the keys (job number, unique key), locked, in order of arrival."""
    found = await tasks_by_id(tx, await holders_of(tx, keys))
    # A task whose lock was waited for may have ended, or given up its key.
    return [task for task in found if task.completed_at is None and (task.job_num, task.unique_key) in keys]


_tasks_of_workers = Prepared(
    locked(select_tasks().where(is_among(tasks.c.worker_id, "ids"), status_in(*LEASED)).order_by(tasks.c.seq))
)


async def tasks_of_workers(tx: Tx, ids: Collection[WorkerId]) -> list[Task]:
    """Return the workers' claimed and running tasks, locked, in order of arrival."""
    return WHOLE.of(tx.dialect, await _tasks_of_workers.rows(tx, ids=ids))


_NOW: BindParameter[datetime] = bindparam("now")
_FINDERS = {
    # Rows that another server has locked are left to it.
    name: locked(statement.limit(bindparam("most")), skip=True)
    for name, statement in {
        "expired": select_tasks().where(status_in(*LEASED), tasks.c.taken_until <= _NOW).order_by(tasks.c.taken_until),
        "overdue": select_tasks()
        .where(tasks.c.deadline.is_not(None), tasks.c.completed_at.is_(None), tasks.c.deadline <= _NOW)
        .order_by(tasks.c.deadline),
        "unstarted": limits.UNSTARTED,
        "overlong": limits.OVERLONG,
    }.items()
}


async def tasks_found(
    tx: Tx, finder: str, now: datetime, most: int, *, stamped_at: datetime | None = None
) -> list[Task]:
    """Return up to `most` tasks with `expired` leases, `overdue` deadlines, `unstarted` or `overlong` runs.

    `unstarted` are claimed tasks past their time to start, `overlong` running ones past their timeout; for runs from
    before `stamped_at` both count from then. The tasks are locked, with their targets; those that another server has
    locked, or whose targets it has, are left out.
    """
    parameters = {"now": now, "most": most}
    if finder in {"unstarted", "overlong"}:
        parameters["stamped"] = stamped_at or limits.FROM_ALWAYS
    found = [to_task(row) for row in await tx.connection.execute(_FINDERS[finder], parameters)]
    return await with_free_targets(tx, found)


_JOB_COLUMNS = [jobs.c[name] for name in JOB_FIELDS]


_NAME = (jobs.c.room, jobs.c.category, jobs.c.name)


def _jobs(condition: ColumnElement[bool], *, to_change: bool) -> Select[Any]:
    return select(*_JOB_COLUMNS).where(condition).order_by(jobs.c.num).with_for_update(read=not to_change)


_BY_NAME = {to_change: ByKey(_NAME, partial(_jobs, to_change=to_change)) for to_change in (False, True)}
_BY_NUM = {to_change: Prepared(_jobs(is_among(jobs.c.num, "nums"), to_change=to_change)) for to_change in (False, True)}


def _to_job(row: Sequence[Any]) -> Job:
    job = Job(*row)
    job.id = JobId(str(job.id))
    if isinstance(job.created_at, int):
        # The values of SQLite's driver.
        job.created_at = instant(job.created_at)
        job.deleted_at = None if job.deleted_at is None else instant(cast("int", job.deleted_at))
        job.retain, job.paused, job.encrypted = bool(job.retain), bool(job.paused), bool(job.encrypted)
    return job


async def jobs_by_name(tx: Tx, names: Collection[tuple[str, str, str]], *, to_change: bool) -> list[Job]:
    """Return the jobs, also deleted ones. They can't change until the commit; `to_change` locks them for writing."""
    return [_to_job(row) for row in await _BY_NAME[to_change].found(tx, names)]


async def nums_of_jobs(tx: Tx, names: Collection[tuple[str, str, str]]) -> set[int]:
    """Return the numbers of the jobs that exist, without locking them."""
    found = select(jobs.c.num).where(tuple_(*_NAME).in_(sorted(names)))
    return set((await tx.connection.execute(found)).scalars()) if names else set()


async def jobs_by_num(tx: Tx, nums: Collection[int], *, to_change: bool) -> list[Job]:
    """Return the jobs with these numbers, locked as in `jobs_by_name`."""
    return [_to_job(row) for row in await _BY_NUM[to_change].rows(tx, nums=nums)]


_free_jobs = Prepared(
    select(*_JOB_COLUMNS).where(is_among(jobs.c.num, "nums")).order_by(jobs.c.num).with_for_update(skip_locked=True)
)


async def free_jobs(tx: Tx, nums: Collection[int]) -> list[Job]:
    """Return the jobs with these numbers that no other server has locked, locked for this writer."""
    return [_to_job(row) for row in await _free_jobs.rows(tx, nums=nums)]


_LANE = (lanes.c.job_num, lanes.c.room, lanes.c.pool)
_LANES = select(lanes.c.id, *_LANE)
_lanes_by_key = ByKey(_LANE, _LANES.where)
_lanes_of_queue = Prepared(
    _LANES.where(lanes.c.job_num == bindparam("job_num"), lanes.c.room == bindparam("room")).limit(bindparam("most"))
)


async def lanes_by_key(tx: Tx, keys: Collection[tuple[int, str, str]]) -> list[Lane]:
    """Return the lanes that exist, without locking them."""
    return [Lane(*row) for row in await _lanes_by_key.found(tx, keys)]


async def lanes_of_queue(tx: Tx, job_num: int, room: str, *, most: int) -> list[Lane]:
    """Return up to `most` lanes of a queue, one for each pool that had a task, without locking them."""
    return [Lane(*row) for row in await _lanes_of_queue.rows(tx, job_num=job_num, room=room, most=most)]


_WORKERS_BY_ID = (
    select(*(workers.c[name] for name in WORKER_FIELDS))
    .where(is_among(workers.c.id, "ids"))
    .order_by(workers.c.id)
    .with_for_update()
)
_links_of_workers = Prepared(
    select(worker_jobs.c.worker_id, worker_jobs.c.job_num).where(is_among(worker_jobs.c.worker_id, "ids"))
)


def to_worker(row: Row[Any]) -> Worker:
    """Return the `Worker` of a row of `workers`, without its jobs."""
    worker = Worker(**dict(zip(WORKER_FIELDS, row, strict=True)))
    worker.state = WorkerState(worker.state)
    return worker


async def workers_by_id(tx: Tx, ids: Collection[WorkerId]) -> list[Worker]:
    """Return the workers that exist, locked, with the numbers of the jobs that they serve."""
    if not ids:
        return []
    found = {w.id: w for w in map(to_worker, await tx.connection.execute(_WORKERS_BY_ID, {"ids": ids}))}
    for worker_id, job_num in await _links_of_workers.rows(tx, ids=ids):
        found[WorkerId(str(worker_id))].jobs.add(job_num)
    return list(found.values())


_PRESENT = select(workers.c.id).where(workers.c.state != "lost")
_SOME_PRESENT = _PRESENT.order_by(workers.c.id).limit(bindparam("most"))
_STALE = _SOME_PRESENT.where(workers.c.last_heartbeat < bindparam("before"))
_PRESENT_AFTER = _SOME_PRESENT.where(workers.c.id > bindparam("after"))


async def stale_workers(tx: Tx, before: datetime, *, most: int) -> list[WorkerId]:
    """Return up to `most` workers that are not lost and had their last heartbeat before the instant."""
    return list((await tx.connection.execute(_STALE, {"before": before, "most": most})).scalars())


async def present_workers(tx: Tx, after: WorkerId, *, most: int) -> list[WorkerId]:
    """Return up to `most` workers that are not lost, in order, behind that one."""
    return list((await tx.connection.execute(_PRESENT_AFTER, {"after": after, "most": most})).scalars())


_PAST_RUNS = past_runs(of=lambda seq: is_among(seq, "seqs"))
"""All past runs of the tasks `seqs`, which are few; for pairs of keys PostgreSQL would use bitmap scans, or read every
run."""
_past_owners = Prepared(
    select(_PAST_RUNS.c.task_seq, workers.c.owner)
    .join_from(_PAST_RUNS, workers, _PAST_RUNS.c.worker_id == workers.c.id)
    .distinct()
)


async def runs_by_key(tx: Tx, keys: Collection[tuple[int, int]]) -> dict[tuple[int, int], Run]:
    """Return the past runs with these keys (task's number, run), by key."""
    if not keys:
        return {}
    seqs = {seq for seq, _ in keys}
    rows = await tx.connection.execute(select(_PAST_RUNS), {"seqs": seqs})
    found = {(run.task_seq, run.run_id): run for run in map(to_run, rows)}
    return {key: found[key] for key in keys if key in found}


async def past_owners(tx: Tx, seqs: Collection[int]) -> dict[int, set[str]]:
    """Return by task `seq` the owners of the workers of its past runs; removed workers are not known."""
    found: dict[int, set[str]] = defaultdict(set)
    for seq, owner in await _past_owners.rows(tx, seqs=seqs):
        found[seq].add(owner)
    return found


_HOLDS = (
    select(
        *(holds.c[name] for name in ("task_seq", "run_id", "worker_id", "target_num", "weight", "until")),
        tasks.c.id,
        tasks.c.lease_seconds,
        holds.c.slot_only,
        tasks.c.limit_key.is_not(None),
    )
    .join_from(holds, tasks, is_same(tasks.c.seq, holds.c.task_seq))
    # An expression instead of the column, along whose index every hold would be read.
    .order_by(holds.c.task_seq + 0)
    .with_for_update(of=holds)
)
_HOLDS_OF_TASKS = _HOLDS.where(is_among(holds.c.task_seq, "seqs"))
_HOLDS_OF_WORKERS = _HOLDS.where(is_among(holds.c.worker_id, "ids"))
_ENDED_HOLDS = _HOLDS.where(holds.c.until <= bindparam("now"))


async def _holds_found(tx: Tx, statement: Select[Any], **parameters: Any) -> list[Hold]:
    return [Hold(*row) for row in await tx.connection.execute(statement, parameters)]


async def holds_of_tasks(tx: Tx, seqs: Collection[int]) -> list[Hold]:
    """Return the holds of the tasks with these numbers, locked."""
    return await _holds_found(tx, _HOLDS_OF_TASKS, seqs=seqs) if seqs else []


async def holds_of_workers(tx: Tx, ids: Collection[WorkerId]) -> list[Hold]:
    """Return the holds of the workers, locked."""
    return await _holds_found(tx, _HOLDS_OF_WORKERS, ids=ids) if ids else []


async def ended_holds(tx: Tx, now: datetime) -> list[Hold]:
    """Return the holds that have ended by `now`, locked."""
    return await _holds_found(tx, _ENDED_HOLDS, now=now)


async def all_holds(tx: Tx) -> list[Hold]:
    """Return every hold, locked."""
    return await _holds_found(tx, _HOLDS)


async def served_jobs(tx: Tx, nums: Collection[int]) -> set[int]:
    """Return the jobs that are still needed: that have a linked worker or a schedule."""
    if not nums:
        return set()
    linked = select(worker_jobs.c.job_num).where(worker_jobs.c.job_num.in_(sorted(nums))).distinct()
    scheduled = select(schedules.c.job_num).where(
        schedules.c.job_num.in_(sorted(nums)), schedules.c.deleted_at.is_(None)
    )
    found = set((await tx.connection.execute(linked)).scalars())
    return found | set((await tx.connection.execute(scheduled)).scalars())

"""Locks what a batch is going to change, before it is read, in the fixed order of `store/transaction/lock_order.py`."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping

from treadle.wire.ids import TaskId
from treadle_server.domain.tasks import Task
from treadle_server.engine.read_set import MOST_WORKERS, ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.transaction import load, lock_order
from treadle_server.store.transaction import schedules as stored
from treadle_server.store.transaction.allocate import allocate
from treadle_server.store.transaction.claim_keys import kept_claims
from treadle_server.store.transaction.lock_order import Place
from treadle_server.store.transaction.targets import lock_targets, number_targets


async def lock(work: UnitOfWork, reads: ReadSet, reported: Collection[Task]) -> None:
    """Read the jobs and what else shows which rows are needed; lock the jobs, and the targets and tasks so found.

    The `reported` tasks are locked with them. Tasks are read later, under their locks.
    """
    tx = work.tx
    work.kept_claims = await kept_claims(tx, reads.claim_keys, work.now)
    reads.tasks.update(task_id for kept in work.kept_claims.values() for task_id, _ in kept.runs)
    if reads.stale is not None:
        work.stale = await load.stale_workers(tx, work.now - reads.stale, most=MOST_WORKERS)
        reads.workers.update(work.stale)
        reads.tasks_of.update(work.stale)
    if tx.is_exclusive:
        await _load_jobs(work, reads)
        return
    found = await _places(work, reads)
    await _want_jobs(work, reads, found)
    await _load_jobs(work, reads)
    holders = await lock_order.holders_of(tx, wanted_keys(work, reads, found))
    found |= _by_id(await lock_order.places_of(tx, holders))
    work.targets |= await number_targets(tx, wanted_targets(reads, found))
    locked: list[Place | Task] = [*found.values(), *reported]
    await lock_targets(tx, {*work.targets.values(), *(one.target_num for one in locked if one.target_num is not None)})
    await lock_order.lock_tasks(tx, {one.seq for one in locked})


def _by_id(places: Iterable[Place]) -> dict[TaskId, Place]:
    return {place.id: place for place in places}


async def _places(work: UnitOfWork, reads: ReadSet) -> dict[TaskId, Place]:
    """Return the places of the tasks that are wanted by id, by worker and by hold."""
    found = await lock_order.places_of(work.tx, reads.tasks | reads.needed)
    found += await lock_order.places_at(work.tx, reads.tasks_of, reads.holds_of)
    if reads.ended_holds:
        found += await lock_order.places_let_go(work.tx, work.now)
    return _by_id(found)


async def _want_jobs(work: UnitOfWork, reads: ReadSet, found: dict[TaskId, Place]) -> None:
    """Add to `reads` the jobs that are wanted with tasks and schedules."""
    reads.job_nums.update(found[task_id].job_num for task_id in reads.jobs_of & found.keys())
    ids = {place.schedule_id for place in found.values() if place.schedule_id is not None}
    if ids or reads.schedules or reads.due_schedules:
        reads.job_nums |= await stored.jobs_of_schedules(work.tx, ids, reads.schedules, work.now, reads.due_schedules)


async def _load_jobs(work: UnitOfWork, reads: ReadSet) -> None:
    """Read the jobs, in one statement where they are locked."""
    tx, names, nums = work.tx, reads.job_names, reads.job_nums
    if names and nums and not tx.is_exclusive:
        names, nums = set(), nums | await load.nums_of_jobs(tx, names)
    for job in await load.jobs_by_name(tx, names, to_change=reads.jobs_change):
        work.know(job)
    for job in await load.jobs_by_num(tx, nums - work.jobs_by_num.keys(), to_change=reads.jobs_change):
        work.know(job)
    work.job_nums = deque(await allocate(tx, "job_num", reads.new_jobs))


def wanted_targets(reads: ReadSet, found: Mapping[TaskId, Place | Task]) -> set[tuple[str, str]]:
    """Return the targets, by room and name, that commands name, including new targets of edited tasks."""
    moved = [(reads.room_of(task_id, found), name) for task_id, name in reads.target_edits]
    return reads.targets | {(room, name) for room, name in moved if room is not None}


def wanted_keys(work: UnitOfWork, reads: ReadSet, found: Mapping[TaskId, Place | Task]) -> set[tuple[int, str]]:
    """Return the unique keys, each with its job's number, whose holders are wanted.

    Some follow from the tasks that were `found`: their places before they are locked, or the tasks as read.
    """
    keys = {(work.jobs[name].num, key) for name, key in reads.unique_keys if name in work.jobs}
    keys |= {(found[task_id].job_num, key) for task_id, key in reads.unique_edits if task_id in found}
    new = [(reads.named[task_id][0], key) for task_id, key in reads.unique_edits if task_id in reads.named]
    keys |= {(work.jobs[name].num, key) for name, key in new if name in work.jobs}
    steered = [found[task_id] for task_id in reads.jobs_of & found.keys()]
    return keys | {(one.job_num, one.unique_key) for one in steered if one.unique_key is not None}

"""Writes the changes of a batch, each kind in one bulk statement; the caller commits."""

from collections import Counter
from collections.abc import Collection

from treadle.wire.status import TERMINAL, Reason, Status
from treadle_server.domain.artifacts import Artifact
from treadle_server.domain.failures import FAILING
from treadle_server.domain.jobs import Worker
from treadle_server.domain.limits import Line
from treadle_server.domain.tasks import Hold, Run, Task
from treadle_server.engine.dependency_rows import write_dependencies
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.transaction import flush, load, promotions
from treadle_server.store.transaction import schedules as stored
from treadle_server.store.transaction import steps as stored_steps
from treadle_server.store.transaction.counts import (
    CountKey,
    OutcomeKey,
    apply_counts,
    count_change,
    count_key,
    open_counts,
)
from treadle_server.store.transaction.failures import insert_failed_without_run, insert_failures
from treadle_server.store.transaction.limit_lines import lines_of
from treadle_server.store.transaction.restamp import restamp
from treadle_server.store.transaction.rows import delete_objects, insert_objects, update_objects
from treadle_server.store.transaction.targets import lock_targets, reblock_tasks, targets_of


async def write(work: UnitOfWork) -> None:
    """Write everything that the commands changed; the caller commits."""
    tx = work.tx
    kept = _kept(work)
    touched = _touched_targets(work, kept.keys())
    work.batch.targets |= touched | {task.target_num for task in kept.values() if task.target_num is not None}
    await lock_targets(tx, touched)
    await insert_objects(tx, work.changes.new_jobs)
    await update_objects(tx, work.changes.changed_jobs.values())
    await flush.insert_schemas(tx, work.changes.new_schemas, work.now)
    await insert_objects(tx, work.changes.new_workers)
    await update_objects(
        tx, [w for w in work.changes.changed_workers.values() if w.id not in work.changes.gone_workers]
    )
    await flush.unlink_all(tx, work.changes.unlinked)
    await flush.link(tx, work.changes.links)
    for seqs, jump in work.changes.restamped:
        # Before the changes to single tasks, so that a lease renewed in this batch is stored as it was answered.
        await restamp(tx, seqs, now=work.now, jump=jump)
    # Before the batch's other changes to them.
    await promotions.promote(tx, work.changes.promoted, work.changes.promoted_counts)
    await flush.update_tasks(tx, [(task, work.changes.before[task.seq]) for task in work.opened])
    # After the tasks that end or give up their unique key in this batch: new tasks may take it.
    await flush.insert_tasks(tx, work.changes.new_tasks.values())
    await write_dependencies(work)
    await insert_objects(tx, work.changes.new_runs)
    await insert_failures(tx, _failing(work))
    await insert_failed_without_run(tx, _failed_without_run(work))
    await flush.insert_logs(tx, work.changes.logs)
    if work.steps:
        await _write_steps(work)
    await _write_schedules(work)
    await _write_holds(work)
    # The caller removes their objects after the commit.
    await delete_objects(tx, Artifact, work.changes.gone_artifacts)
    await insert_objects(tx, work.changes.new_artifacts)
    await update_objects(tx, work.changes.changed_artifacts)
    for pruning in work.changes.prunings:
        await pruning.carry_out(tx)
        work.batch.pruned |= {task.id: task.job_name for task in pruning.removed}
    counted = _count_deltas(work)
    work.left_ends = _left_ends(work)
    await apply_counts(tx, counted)
    counted.update(work.changes.promoted_counts)
    work.counted = counted
    # This deletes their links too; their tasks and runs still name them.
    await delete_objects(tx, Worker, work.changes.gone_workers)
    await _reblock(work, touched)
    await _note_limited(work, kept.keys())
    await _delete_orphans(work)


def _failing(work: UnitOfWork) -> list[tuple[Task, Run]]:
    """Return the runs that failed, each with its task."""
    failed = [run for run in work.changes.new_runs if run.status in FAILING]
    by_seq = {task.seq: task for task in work.tasks.values()} if failed else {}
    return [(by_seq[run.task_seq], run) for run in failed]


def _failed_without_run(work: UnitOfWork) -> list[Task]:
    """Return the tasks that failed in this batch without a run that ended with them."""
    ended = {run.task_seq for run in work.changes.new_runs}
    return [
        task
        for task in work.opened
        if task.status is Status.FAILED
        and task.seq not in ended
        and work.changes.before[task.seq].status is not Status.FAILED
    ]


def _kept(work: UnitOfWork) -> dict[int, Task]:
    """Return, by number, the tasks whose run goes on: they started, renewed or saved something, and keep their holds.

    Their targets need no new decision, which saves half of all decisions where tasks are started and completed.
    """
    before = work.changes.before
    return {
        task.seq: task
        for task in work.opened
        if task.is_leased and before[task.seq].is_leased and before[task.seq].run_id == task.run_id
    }


def _touched_targets(work: UnitOfWork, kept: Collection[int]) -> set[int]:
    touched = {task.target_num for task in work.written if task.seq not in kept}
    touched |= {hold.target_num for hold in work.holds.values()} | work.left_targets | work.changes.freed_targets
    return {num for num in touched if num is not None}


async def _write_holds(work: UnitOfWork) -> None:
    changes, gone = work.changes, work.changes.gone_holds
    await delete_objects(work.tx, Hold, gone - changes.new_holds.keys())
    await insert_objects(work.tx, [hold for key, hold in changes.new_holds.items() if key not in gone])
    await update_objects(work.tx, [hold for key, hold in changes.renewed_holds.items() if key not in gone], "until")


async def _write_steps(work: UnitOfWork) -> None:
    book = work.steps
    await stored_steps.delete_steps(work.tx, book.cleared)
    await stored_steps.delete_messages(work.tx, book.emptied)
    await stored_steps.free_messages(
        work.tx, {seq: first for seq, first in book.cleared.items() if seq not in book.emptied}
    )
    await insert_objects(work.tx, book.new_steps)
    await update_objects(work.tx, book.changed, "result", "until", "received_at")
    await insert_objects(work.tx, book.new_messages)
    await update_objects(work.tx, book.taken, "step")


async def _write_schedules(work: UnitOfWork) -> None:
    await insert_objects(work.tx, work.changes.new_schedules)
    await update_objects(work.tx, work.changes.changed_schedules.values())
    await stored.forget_ticks(work.tx, work.changes.rescheduled, work.now)
    await stored.insert_ticks(work.tx, work.changes.ticks)


def _count_deltas(work: UnitOfWork) -> Counter[CountKey]:
    deltas: Counter[CountKey] = Counter()
    for task in work.changes.new_tasks.values():
        count_change(deltas, task, None)
    for task in work.opened:
        before = work.changes.before[task.seq]
        count_change(deltas, task, count_key(before.lane, before.status, before.priority))
    for pruning in work.changes.prunings:
        deltas.subtract(count_key(gone.lane, gone.status, 0) for gone in pruning.removed)
    return deltas


def _left_ends(work: UnitOfWork) -> Counter[OutcomeKey]:
    left: Counter[OutcomeKey] = Counter((task.lane, was) for task, was in work.batch.tasks if was in TERMINAL)
    for pruning in work.changes.prunings:
        left.update((gone.lane, gone.status) for gone in pruning.removed)
    return left


async def _reblock(work: UnitOfWork, touched: set[int]) -> None:
    """Decide again which tasks of the touched targets, and of ended holds, may be claimed."""
    promoted = [task for task, _ in work.changes.promoted if task.seq not in work.changes.before]
    work.changes.queued = [task for task in promoted if task.seq in work.changes.free]
    work.batch.lanes |= {task.lane for task in work.changes.queued}
    others = [task for task in promoted if task.seq not in work.changes.free]
    pending = [t for t in work.written + others if t.status is Status.PENDING]
    work.woken |= {task.lane for task in pending if not task.blocked}
    ended = {seq for seq, _ in work.changes.gone_holds}
    moved = await targets_of(work.tx, ended) - touched
    await lock_targets(work.tx, moved)
    await work.reblock(touched | moved)
    again = {task.seq: task for task in pending if task.target_num is None and task.has_run}
    for seq, lane, blocked in await reblock_tasks(work.tx, again.keys() | ended):
        if seq in again:
            again[seq].blocked = blocked
        if not blocked:
            work.woken.add(lane)


async def _note_limited(work: UnitOfWork, kept: Collection[int]) -> None:
    """Note what the batch did to tasks with limits, for `gates.decide` to decide which of them may be claimed."""
    limited = work.limited
    # The lines of ended holds' tasks, which may not have been read.
    limited.lines |= await lines_of(work.tx, limited.seqs)
    for task in work.written:
        for one in () if task.seq in kept else (task, work.changes.before.get(task.seq, task)):
            if one.limit_key is not None:
                limited.seqs.add(one.seq)
                limited.lines.add(Line(one.lane, one.limit_key))
    back = [run for run in work.changes.new_runs if run.reason is Reason.RETURNED]
    # A returned run whose code may have begun all the same has spent its token.
    returned = {run.task_seq for run in back if (run.task_seq, run.run_id) not in work.changes.new_holds}
    keys = {task.seq: task.limit_key for task in work.opened if task.seq in returned}
    limited.returned = [key for key in (keys.get(seq) for seq in sorted(returned)) if key is not None]


async def _delete_orphans(work: UnitOfWork) -> None:
    """Mark jobs as deleted that no worker serves and that have no open task (Z6); never retained or internal ones."""
    nums = work.changes.orphans
    if not nums:
        return
    # Jobs that another server has locked are left to the sweeper, which checks every job: it is too late to wait here.
    free = {job.num: job for job in await load.free_jobs(work.tx, nums)}
    for num in free.keys() - work.jobs_by_num.keys():
        work.know(free[num])
    candidates = {
        num
        for num in free
        if (found := work.jobs_by_num.get(num))
        and not (found.retain or found.is_internal or found.deleted_at is not None)
    }
    served = await load.served_jobs(work.tx, candidates)
    busy = await open_counts(work.tx, candidates - served)
    gone = [work.jobs_by_num[num] for num in candidates - served if not busy.get(num)]
    for job in gone:
        job.deleted_at = work.now
        job.version += 1
        work.batch.jobs.append(job)
    await update_objects(work.tx, gone)

"""Writes what the commands of a batch changed, each kind in one bulk statement; the caller commits."""

from collections import Counter

from treadle.wire.status import LEASED, TERMINAL, Status
from treadle_server.domain.tasks import TASK_FIELDS, Task
from treadle_server.engine.world import World
from treadle_server.store import artifacts as store_artifacts
from treadle_server.store import flush, hot, load
from treadle_server.store import schedules as stored
from treadle_server.store.counts import CountKey, apply_counts, open_counts
from treadle_server.store.past_outcomes import OutcomeKey
from treadle_server.store.restamp import restamp
from treadle_server.store.targets import lock_targets, settle_targets, settle_tasks, targets_of

_STATUS = TASK_FIELDS.index("status")
_RUN = TASK_FIELDS.index("run_id")


async def write(world: World, *, settle: bool = True) -> None:
    """Write everything that the commands changed; the caller commits.

    `settle` may be false for claims alone: they take the one claimable task of a target that they have locked, and
    the others are blocked already.
    """
    tx = world.tx
    touched = _touched_targets(world)
    world.batch.targets |= touched | {task.target_num for task in _kept(world) if task.target_num is not None}
    if settle:
        await lock_targets(tx, touched)
    await flush.insert_jobs(tx, world.changes.new_jobs)
    await flush.update_jobs(tx, list(world.changes.changed_jobs.values()))
    await flush.insert_schemas(tx, world.changes.new_schemas, world.now)
    await flush.insert_workers(tx, world.changes.new_workers)
    await flush.update_workers(
        tx, [w for w in world.changes.changed_workers.values() if w.id not in world.changes.gone_workers]
    )
    await flush.unlink_all(tx, world.changes.unlinked)
    await flush.link(tx, world.changes.links)
    for seqs, jump in world.changes.restamped:
        # Before what the batch did to single tasks: a lease that was renewed in it is as it was answered.
        await restamp(tx, seqs, now=world.now, jump=jump)
    new = {task.seq for task in world.changes.new_tasks}
    changed = [(t, world.changes.before[t.seq]) for t in _opened(world) if t.seq not in new]
    await flush.update_tasks(tx, changed)
    # After what is over or let go of its unique key by this batch: the new ones may have it.
    await flush.insert_tasks(tx, world.changes.new_tasks)
    await hot.insert_runs(tx, world.changes.new_runs)
    await flush.insert_logs(tx, world.changes.logs)
    await _write_schedules(world)
    await _write_holds(world)
    await store_artifacts.delete_artifacts(tx, world.changes.gone_artifacts)
    await store_artifacts.insert_artifacts(tx, world.changes.new_artifacts)
    await store_artifacts.update_artifacts(tx, world.changes.stored_artifacts)
    for pruning in world.changes.prunings:
        await pruning.carry_out(tx)
        world.batch.pruned |= {task.id: task.job_name for task in pruning.removed}
    world.counted = _count_deltas(world)
    world.left_ends = _left_ends(world)
    await apply_counts(tx, world.counted)
    await flush.delete_workers(tx, world.changes.gone_workers)
    if settle:
        await _settle(world, touched)
    await _delete_orphans(world)


def _opened(world: World) -> list[Task]:
    return [task for task in world.tasks.values() if task.seq in world.changes.before]


def _kept(world: World) -> list[Task]:
    """Return the tasks whose run goes on: they started, beat, or saved something, and hold what they held before.

    Their targets need no settling; that is half of all settling where tasks are started and completed.
    """
    before = world.changes.before
    return [
        task
        for task in _opened(world)
        if task.is_leased and before[task.seq][_STATUS] in LEASED and before[task.seq][_RUN] == task.run_id
    ]


def _touched_targets(world: World) -> set[int]:
    kept = {task.seq for task in _kept(world)}
    touched = {task.target_num for task in _opened(world) + world.changes.new_tasks if task.seq not in kept}
    touched |= {hold.target_num for hold in world.holds.values()} | world.left_targets | world.changes.freed_targets
    return {num for num in touched if num is not None}


async def _write_holds(world: World) -> None:
    await flush.delete_holds(world.tx, world.changes.gone_holds - world.changes.new_holds.keys())
    await flush.insert_holds(
        world.tx, [h for key, h in world.changes.new_holds.items() if key not in world.changes.gone_holds]
    )
    await flush.update_holds(
        world.tx, [h for key, h in world.changes.renewed_holds.items() if key not in world.changes.gone_holds]
    )


async def _write_schedules(world: World) -> None:
    await stored.insert_schedules(world.tx, world.changes.new_schedules)
    await stored.update_schedules(world.tx, world.changes.changed_schedules.values())
    await stored.insert_ticks(world.tx, world.changes.ticks)


def _count_deltas(world: World) -> Counter[CountKey]:
    deltas: Counter[CountKey] = Counter()
    names = TASK_FIELDS
    at = (names.index("lane"), names.index("status"), names.index("priority"))
    new = {task.seq for task in world.changes.new_tasks}
    for task in world.changes.new_tasks:
        deltas[_count_key(task.lane, task.status, task.priority)] += 1
    for task in _opened(world):
        if task.seq not in new:
            lane, status, priority = (world.changes.before[task.seq][i] for i in at)
            deltas[_count_key(lane, status, priority)] -= 1
            deltas[_count_key(task.lane, task.status, task.priority)] += 1
    for pruning in world.changes.prunings:
        for gone in pruning.removed:
            deltas[gone.lane, gone.status, 0] -= 1
    return deltas


def _left_ends(world: World) -> Counter[OutcomeKey]:
    left: Counter[OutcomeKey] = Counter((task.lane, was) for task, was in world.batch.tasks if was in TERMINAL)
    for pruning in world.changes.prunings:
        left.update((gone.lane, gone.status) for gone in pruning.removed)
    return left


async def _settle(world: World, touched: set[int]) -> None:
    """Decide anew which tasks of the touched targets, and of ended holds, may be claimed."""
    new = {task.seq for task in world.changes.new_tasks}
    pending = [t for t in _opened(world) + world.changes.new_tasks if t.status is Status.PENDING]
    world.woken |= {task.lane for task in pending if not task.blocked}
    ended = {seq for seq, _ in world.changes.gone_holds}
    moved = await targets_of(world.tx, ended) - touched
    await lock_targets(world.tx, moved)
    world.woken |= await settle_targets(world.tx, touched | moved)
    again = {task.seq for task in pending if task.target_num is None and task.seq not in new and task.has_run}
    world.woken |= await settle_tasks(world.tx, again | ended)


async def _delete_orphans(world: World) -> None:
    """Mark jobs deleted that nobody serves, with nothing open (Z6); never retained or internal ones."""
    nums = world.changes.orphans
    if not nums:
        return
    missing = nums - world.jobs_by_num.keys()
    for job in await load.jobs_by_num(world.tx, missing, to_change=True):
        world.know(job)
    candidates = {
        num
        for num in nums
        if (found := world.jobs_by_num.get(num))
        and not (found.retain or found.is_internal or found.deleted_at is not None)
    }
    served = await load.served_jobs(world.tx, candidates)
    busy = await open_counts(world.tx, candidates - served)
    gone = [world.jobs_by_num[num] for num in candidates - served if not busy.get(num)]
    for job in gone:
        job.deleted_at = world.now
        job.version += 1
        world.batch.jobs.append(job)
    await flush.update_jobs(world.tx, gone)


def _count_key(lane: int, status: Status, priority: int) -> CountKey:
    return (lane, status, priority if status is Status.PENDING else 0)

"""Reads what the commands of a batch need, each kind in one statement."""

from collections import deque
from collections.abc import Collection

from treadle.wire.names import JobName
from treadle_server.domain.jobs import Lane
from treadle_server.domain.limits import own_of
from treadle_server.domain.schedules import Schedule
from treadle_server.engine.admission import read_admission
from treadle_server.engine.commands.instances import options_of
from treadle_server.engine.dependency_rows import read_dependencies
from treadle_server.engine.locking import wanted_keys, wanted_targets
from treadle_server.engine.read_set import MOST_WORKERS, NOBODY, ReadSet
from treadle_server.engine.superseding import read_rivals
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.transaction import artifacts as store_artifacts
from treadle_server.store.transaction import load
from treadle_server.store.transaction import schedules as stored
from treadle_server.store.transaction import steps as stored_steps
from treadle_server.store.transaction.allocate import allocate
from treadle_server.store.transaction.counts import queue_counts
from treadle_server.store.transaction.limit_rows import due_buckets
from treadle_server.store.transaction.limits_kept import limits_by_name, named_limits
from treadle_server.store.transaction.owners import acting
from treadle_server.store.transaction.promotions import Due, due_tasks
from treadle_server.store.transaction.rows import insert_objects
from treadle_server.store.transaction.targets import number_targets

MOST_AWAITED = 500
"""How many due buckets of limits one batch decides; the next batch continues with the rest."""


async def read(work: UnitOfWork, reads: ReadSet) -> None:
    """Read what the commands of a batch need into the unit of work, locked on PostgreSQL until the commit."""
    if reads.due_until is not None:
        work.reads_on = await work.due_ahead.read(work.tx, reads.due_until)
    if reads.due is not None:
        alone, of_several = reads.due
        due, work.changes.free = await _due(work, alone if work.tx.is_exclusive else of_several)
        work.found["due"] = work.remember(due)
    for finder, most in reads.found.items():
        at = work.now - reads.grace if finder == "overlong" else work.now
        found = await load.tasks_found(work.tx, finder, at, most, stamped_at=reads.stamped_at)
        work.found[finder] = work.remember(found)
        # A worker that loses a run is marked, so it must be read.
        reads.workers.update(t.worker_id for t in found if t.is_leased and t.worker_id is not None)
    if reads.present_after is not None:
        work.present = await load.present_workers(work.tx, reads.present_after, most=MOST_WORKERS)
        reads.workers.update(work.present)
    await _load_tasks(work, reads)
    await _load_around(work, reads)
    if reads.artifacts or reads.dead_artifacts is not None:
        await _load_artifacts(work, reads)
    if reads.steps:
        await _load_steps(work, reads)
    work.remember(await load.tasks_of_workers(work.tx, reads.tasks_of))
    await _load_holds(work, reads)
    for worker in await load.workers_by_id(work.tx, reads.workers):
        work.workers[worker.id] = worker
    await _load_schedules(work, reads)
    await _load_limits(work, reads)
    await read_admission(work, reads)
    await read_rivals(work, reads)
    await _load_new(work, reads)
    await read_dependencies(work, reads)
    for pruning in reads.prunings:
        await pruning.find(work.tx)


async def _due(work: UnitOfWork, most: int) -> Due:
    return work.due_ahead.take(work.now, most) or await due_tasks(work.tx, work.now, most)


async def _load_tasks(work: UnitOfWork, reads: ReadSet) -> None:
    work.remember(await load.tasks_by_id(work.tx, reads.tasks - work.tasks.keys()))
    stale = {
        (work.tasks[task_id].seq, run_id)
        for task_id, run_id in reads.runs
        if task_id in work.tasks and not (work.tasks[task_id].is_leased and work.tasks[task_id].run_id == run_id)
    }
    work.resolved |= await load.runs_by_key(work.tx, stale)
    reads.workers.update(run.worker_id for run in work.resolved.values() if run.worker_id is not None)
    asked = [work.tasks[task_id] for task_id in reads.past_owners_of & work.tasks.keys()]
    work.past_owners = await load.past_owners(work.tx, {task.seq for task in asked if task.run_id > 0})


async def _load_holders(work: UnitOfWork, keys: Collection[tuple[int, str]]) -> None:
    """Read the open tasks that hold unique keys, by job number and key."""
    for task in work.remember(await load.tasks_by_unique_key(work.tx, keys)):
        assert task.unique_key is not None
        work.unique[task.job_num, task.unique_key] = task


async def _load_artifacts(work: UnitOfWork, reads: ReadSet) -> None:
    keys = set()
    for task_id, run_id, name in reads.artifacts:
        if (task := work.tasks.get(task_id)) is not None:
            keys.add((task.seq, run_id, name))
            run = work.resolved.get((task.seq, run_id))
            if (worker_id := task.worker_id if run is None else run.worker_id) is not None:
                reads.workers.add(worker_id)
    for artifact in await store_artifacts.artifacts_by_key(work.tx, keys):
        work.artifacts[artifact.key] = artifact
    if reads.dead_artifacts is not None:
        most, abandoned = reads.dead_artifacts
        work.dead_artifacts = await store_artifacts.dead_artifacts(
            work.tx, expired=work.now, announced=work.now - abandoned, most=most
        )


async def _load_steps(work: UnitOfWork, reads: ReadSet) -> None:
    """Read the steps that are reported, the messages that are sent or received, and what their tasks wait for."""
    book, tasks, wanted = work.steps, work.tasks, reads.steps
    keys = {(tasks[task_id].seq, name, n) for task_id, name, n in wanted.keys if task_id in tasks}
    book.kept = {step.key: step for step in await stored_steps.steps_by_key(work.tx, keys)}
    receives = {(tasks[task_id].seq, name): n for (task_id, name), n in wanted.receives.items() if task_id in tasks}
    for message in await stored_steps.waiting_messages(work.tx, receives):
        book.waiting.setdefault((message.task_seq, message.name), []).append(message)
    sent_to = [tasks[task_id] for task_id in {one[0] for one in wanted.sends} if task_id in tasks]
    ids = {(tasks[task_id].seq, name, key) for task_id, name, key in wanted.sends if task_id in tasks}
    book.messages = {message.key: message for message in await stored_steps.messages_by_key(work.tx, ids)}
    book.counts = await stored_steps.message_counts(work.tx, {task.seq for task in sent_to})
    waiting = [tasks[task_id] for task_id in wanted.waits | {one[0] for one in wanted.sends} if task_id in tasks]
    last = {(task.seq, task.steps - 1) for task in waiting if task.steps}
    for step in await stored_steps.steps_by_number(work.tx, last):
        book.last[step.task_seq] = book.kept.setdefault(step.key, step)
    book.worked = await stored_steps.last_worked(work.tx, {task.seq for task in waiting if task.worker_id is None})


async def _load_around(work: UnitOfWork, reads: ReadSet) -> None:
    """Read what belongs to the tasks that were read: workers, jobs, holders of unique keys, new targets."""
    for task_id in reads.owners_of & work.tasks.keys():
        if (worker_id := work.tasks[task_id].worker_id) is not None:
            reads.workers.add(worker_id)
    missing = {work.tasks[task_id].job_num for task_id in reads.jobs_of & work.tasks.keys()} - work.jobs_by_num.keys()
    for job in await load.jobs_by_num(work.tx, missing, to_change=reads.jobs_change):
        work.know(job)
    await _load_holders(work, wanted_keys(work, reads, work.tasks))
    work.targets |= await number_targets(work.tx, wanted_targets(reads, work.tasks) - work.targets.keys())


async def _load_holds(work: UnitOfWork, reads: ReadSet) -> None:
    asked = {work.tasks[task_id].seq for task_id, _ in reads.runs if task_id in work.tasks}
    asked |= {task.seq for task_id, task in work.tasks.items() if task_id in reads.tasks and task.has_run}
    found = await load.holds_of_tasks(work.tx, asked)
    found += await load.holds_of_workers(work.tx, reads.holds_of)
    if reads.ended_holds:
        found += await load.ended_holds(work.tx, work.now)
    if reads.present_after == NOBODY:
        found += await load.all_holds(work.tx)
    for hold in found:
        work.holds[hold.task_seq, hold.run_id] = hold
        reads.workers.add(hold.worker_id)


async def _load_schedules(work: UnitOfWork, reads: ReadSet) -> None:
    """Read schedules that are named or due or whose tasks may end, and what their next tasks need."""
    ids = {task.schedule_id for task in work.tasks.values() if task.schedule_id is not None and not task.completed_at}
    if not (ids or reads.schedules or reads.due_schedules):
        return
    named = await stored.schedules_named(work.tx, ids, reads.schedules)
    at = work.now if work.rules.needs_tokens else None
    due = await stored.due_schedules(work.tx, work.now, reads.due_schedules, tokens_at=at)
    found = {schedule.id: work.know_schedule(schedule) for schedule in (*named, *due)}
    work.due_schedules = [found[schedule.id] for schedule in due]
    work.acting = await acting(work.tx, {schedule.owner for schedule in found.values()}, at)
    work.open_instances = await stored.open_instances(work.tx, found.values())
    missing = {schedule.job_num for schedule in found.values()} - work.jobs_by_num.keys()
    for job in await load.jobs_by_num(work.tx, missing, to_change=reads.jobs_change):
        work.know(job)
    await _expect_instances(work, reads, found.values())


async def _load_limits(work: UnitOfWork, reads: ReadSet) -> None:
    """Read the limits that commands name, and those that the jobs of new and edited tasks name."""
    jobs = {work.jobs[name].num for name, _, _ in reads.new_tasks if name in work.jobs}
    edited = [work.tasks[task_id] for task_id in reads.limit_edits if task_id in work.tasks]
    jobs |= {task.job_num for task in edited}
    wanted = {*reads.limits, *((task.room, one["name"]) for task in edited for one in own_of(task.limits))}
    for num in jobs & work.jobs_by_num.keys():
        job = work.jobs_by_num[num]
        wanted |= {(job.room, one["name"]) for one in work.rules.limits_of(job)}
    for schedule in work.schedules.values():
        wanted |= {(schedule.room, one["name"]) for one in options_of(schedule).get("limits") or ()}
    to_name = [(reads.room_of(task_id, work.tasks), name) for task_id, name in reads.limit_names]
    wanted |= {(room, name) for room, name in to_name if room is not None}
    if wanted:
        work.limits = await limits_by_name(work.tx, wanted, to_change=reads.limits_change)
    if reads.limits_change:
        known = [work.limits[name] for name in reads.limits if name in work.limits]
        work.named_limits = await named_limits(work.tx, known)
    if reads.due_limits:
        work.due_bucket_ids = await due_buckets(work.tx, work.now, MOST_AWAITED)


async def _expect_instances(work: UnitOfWork, reads: ReadSet, found: Collection[Schedule]) -> None:
    targets: set[tuple[str, str]] = set()
    keys: set[tuple[int, str]] = set()
    for schedule in found:
        options = options_of(schedule)
        job = work.jobs_by_num[schedule.job_num]
        reads.new_tasks.append((JobName(job.room, job.category, job.name), schedule.room, options.get("pool")))
        if (target := options.get("target")) is not None:
            targets.add((schedule.room, target))
        if (key := options.get("unique_key")) is not None:
            keys.add((schedule.job_num, key))
    work.targets |= await number_targets(work.tx, targets - work.targets.keys())
    await _load_holders(work, keys)


async def _load_new(work: UnitOfWork, reads: ReadSet) -> None:
    """Read what new tasks need: numbers, lanes, and the counts from which their positions follow."""
    wanted = _wanted_lanes(work, reads)
    if not wanted:
        return
    work.seqs = deque(await allocate(work.tx, "task_seq", len(reads.new_tasks)))
    for lane in await load.lanes_by_key(work.tx, wanted):
        work.lanes[lane.key] = lane
    await _add_lanes(work, wanted)
    work.queues = await queue_counts(work.tx, {(job_num, room) for job_num, room, _ in wanted})


def _wanted_lanes(work: UnitOfWork, reads: ReadSet) -> set[tuple[int, str, str]]:
    """Return the lanes of new tasks, and of tasks that are moved to another pool."""
    wanted = {
        work.jobs[name].lane_key(room, work.rules.options({"pool": pool}, work.jobs[name])["pool"])
        for name, room, pool in set(reads.new_tasks)
        if name in work.jobs
    }
    moved = [(work.tasks[task_id], pool) for task_id, pool in reads.pool_edits if task_id in work.tasks]
    wanted |= {work.job_of(task).lane_key(task.room, pool) for task, pool in moved}
    new = [(*reads.named[task_id], pool) for task_id, pool in reads.pool_edits if task_id in reads.named]
    return wanted | {work.jobs[name].lane_key(room, pool) for name, room, pool in new if name in work.jobs}


async def _add_lanes(work: UnitOfWork, wanted: set[tuple[int, str, str]]) -> None:
    missing = sorted(wanted - work.lanes.keys())
    numbers = await allocate(work.tx, "lane_id", len(missing))
    new = [Lane(number, *key) for number, key in zip(numbers, missing, strict=True)]
    await insert_objects(work.tx, new)
    for lane in new:
        work.lanes[lane.key] = lane

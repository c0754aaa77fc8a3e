"""Reads what the commands of a batch need, each kind in one statement."""

from collections import deque
from collections.abc import Collection

from treadle.wire.names import JobName
from treadle_server.domain.jobs import Lane
from treadle_server.domain.schedules import Schedule
from treadle_server.engine.commands.instances import options_of
from treadle_server.engine.needs import Needs
from treadle_server.engine.world import World
from treadle_server.store import artifacts as store_artifacts
from treadle_server.store import flush, load
from treadle_server.store import schedules as stored
from treadle_server.store.allocate import allocate
from treadle_server.store.claim_keys import kept_claims
from treadle_server.store.counts import pending_counts
from treadle_server.store.owners import acting
from treadle_server.store.targets import number_targets


async def read(world: World, needs: Needs) -> None:
    """Read what the commands of a batch asked for."""
    for finder, most in needs.found.items():
        at = world.now - needs.grace if finder == "overlong" else world.now
        found = await load.tasks_found(world.tx, finder, at, most, stamped_at=needs.stamped_at)
        world.found[finder] = world.remember(found)
        # What is taken from them is noted of them.
        needs.workers.update(t.worker_id for t in found if t.is_leased and t.worker_id is not None)
    if needs.every_worker:
        needs.workers.update(await load.present_workers(world.tx))
    if needs.stale is not None:
        world.stale = await load.stale_workers(world.tx, world.now - needs.stale)
        needs.workers.update(world.stale)
        needs.tasks_of.update(world.stale)
    await _load_jobs(world, needs)
    world.kept_claims = await kept_claims(world.tx, needs.claim_keys, world.now)
    needs.tasks.update(task_id for kept in world.kept_claims.values() for task_id, _ in kept.runs)
    await _load_tasks(world, needs)
    await _load_around(world, needs)
    if needs.artifacts or needs.dead_artifacts is not None:
        await _load_artifacts(world, needs)
    for worker in await load.workers_by_id(world.tx, needs.workers):
        world.workers[worker.id] = worker
    world.remember(await load.tasks_of_workers(world.tx, needs.tasks_of))
    await _load_holds(world, needs)
    await _load_schedules(world, needs)
    await _load_new(world, needs)
    for pruning in needs.prunings:
        await pruning.find(world.tx)


async def _load_tasks(world: World, needs: Needs) -> None:
    world.remember(await load.tasks_by_id(world.tx, needs.tasks - world.tasks.keys()))
    keys = {(world.jobs[name].num, key) for name, key in needs.unique_keys if name in world.jobs}
    await _load_holders(world, keys)
    stale = {
        (world.tasks[task_id].seq, run_id)
        for task_id, run_id in needs.runs
        if task_id in world.tasks and not (world.tasks[task_id].is_leased and world.tasks[task_id].run_id == run_id)
    }
    world.resolved |= await load.runs_by_key(world.tx, stale)
    needs.workers.update(run.worker_id for run in world.resolved.values() if run.worker_id is not None)
    asked = [world.tasks[task_id] for task_id in needs.past_owners_of & world.tasks.keys()]
    world.past_owners = await load.past_owners(world.tx, {task.seq for task in asked if task.run_id > 0})


async def _load_holders(world: World, keys: Collection[tuple[int, str]]) -> None:
    """Read the open tasks that hold unique keys, by job number and key."""
    for task in world.remember(await load.tasks_by_unique_key(world.tx, keys)):
        assert task.unique_key is not None
        world.unique[task.job_num, task.unique_key] = task


async def _load_artifacts(world: World, needs: Needs) -> None:
    keys = set()
    for task_id, run_id, name in needs.artifacts:
        if (task := world.tasks.get(task_id)) is not None:
            keys.add((task.seq, run_id, name))
            run = world.resolved.get((task.seq, run_id))
            if (worker_id := task.worker_id if run is None else run.worker_id) is not None:
                needs.workers.add(worker_id)
    for artifact in await store_artifacts.artifacts_by_key(world.tx, keys):
        world.artifacts[artifact.key] = artifact
    if needs.dead_artifacts is not None:
        most, abandoned = needs.dead_artifacts
        world.dead_artifacts = await store_artifacts.dead_artifacts(
            world.tx, expired=world.now, announced=world.now - abandoned, most=most
        )


async def _load_jobs(world: World, needs: Needs) -> None:
    for job in await load.jobs_by_name(world.tx, needs.job_names, to_change=needs.jobs_change):
        world.know(job)
    missing = needs.job_nums - world.jobs_by_num.keys()
    for job in await load.jobs_by_num(world.tx, missing, to_change=needs.jobs_change):
        world.know(job)
    world.job_nums = await allocate(world.tx, "job_num", needs.new_jobs)


async def _load_around(world: World, needs: Needs) -> None:
    """Read what belongs to the tasks that were read: workers, jobs, holders of unique keys, targets to be."""
    for task_id in needs.owners_of & world.tasks.keys():
        if (worker_id := world.tasks[task_id].worker_id) is not None:
            needs.workers.add(worker_id)
    steered = [world.tasks[task_id] for task_id in needs.jobs_of & world.tasks.keys()]
    missing = {task.job_num for task in steered} - world.jobs_by_num.keys()
    for job in await load.jobs_by_num(world.tx, missing, to_change=needs.jobs_change):
        world.know(job)
    keys = {(task.job_num, task.unique_key) for task in steered if task.unique_key is not None}
    keys |= {(world.tasks[task_id].job_num, key) for task_id, key in needs.unique_edits if task_id in world.tasks}
    await _load_holders(world, keys)
    moved = {(world.tasks[task_id].room, name) for task_id, name in needs.target_edits if task_id in world.tasks}
    world.targets |= await number_targets(world.tx, needs.targets | moved)


async def _load_holds(world: World, needs: Needs) -> None:
    asked = {world.tasks[task_id].seq for task_id, _ in needs.runs if task_id in world.tasks}
    asked |= {task.seq for task_id, task in world.tasks.items() if task_id in needs.tasks and task.has_run}
    found = await load.holds_of_tasks(world.tx, asked)
    found += await load.holds_of_workers(world.tx, needs.holds_of)
    if needs.ended_holds:
        found += await load.ended_holds(world.tx, world.now)
    if needs.every_hold:
        found += await load.all_holds(world.tx)
    for hold in found:
        world.holds[hold.task_seq, hold.run_id] = hold
    missing = {hold.worker_id for hold in found} - world.workers.keys()
    for worker in await load.workers_by_id(world.tx, missing):
        world.workers[worker.id] = worker


async def _load_schedules(world: World, needs: Needs) -> None:
    """Read the schedules that are named, that are due, and whose tasks may be settled; and make room for their next."""
    ids = {task.schedule_id for task in world.tasks.values() if task.schedule_id is not None and not task.completed_at}
    if not (ids or needs.schedules or needs.due_schedules):
        return
    named = await stored.schedules_by_name(world.tx, needs.schedules)
    named += await stored.schedules_by_id(world.tx, ids)
    at = world.now if world.rules.needs_tokens else None
    due = await stored.due_schedules(world.tx, world.now, needs.due_schedules, tokens_at=at)
    found = {schedule.id: world.know_schedule(schedule) for schedule in (*named, *due)}
    world.due_schedules = [found[schedule.id] for schedule in due]
    world.acting = await acting(world.tx, {schedule.owner for schedule in found.values()}, at)
    world.open_instances = await stored.open_instances(world.tx, found.values())
    missing = {schedule.job_num for schedule in found.values()} - world.jobs_by_num.keys()
    for job in await load.jobs_by_num(world.tx, missing, to_change=needs.jobs_change):
        world.know(job)
    await _expect_instances(world, needs, found.values())


async def _expect_instances(world: World, needs: Needs, found: Collection[Schedule]) -> None:
    targets: set[tuple[str, str]] = set()
    keys: set[tuple[int, str]] = set()
    for schedule in found:
        options = options_of(schedule)
        job = world.jobs_by_num[schedule.job_num]
        needs.new_tasks.append((JobName(job.room, job.category, job.name), schedule.room, options.get("pool")))
        if (target := options.get("target")) is not None:
            targets.add((schedule.room, target))
        if (key := options.get("unique_key")) is not None:
            keys.add((schedule.job_num, key))
    world.targets |= await number_targets(world.tx, targets)
    await _load_holders(world, keys)


async def _load_new(world: World, needs: Needs) -> None:
    """Make room for new tasks: their numbers, lanes, and the counts from which their position follows."""
    wanted = _wanted_lanes(world, needs)
    if not wanted:
        return
    world.seqs = deque(await allocate(world.tx, "task_seq", len(needs.new_tasks)))
    nums = {job_num for job_num, _, _ in wanted}
    for lane in await load.lanes_of_jobs(world.tx, nums):
        world.lanes[lane.key] = lane
    await _add_lanes(world, wanted)
    world.pending.update(await pending_counts(world.tx, [lane.id for lane in world.lanes.values()]))


def _wanted_lanes(world: World, needs: Needs) -> set[tuple[int, str, str]]:
    """Return the lines in which the new tasks will stand, and those that are moved to another pool."""
    wanted = {
        world.jobs[name].lane_key(room, world.rules.options({"pool": pool}, world.jobs[name])["pool"])
        for name, room, pool in set(needs.new_tasks)
        if name in world.jobs
    }
    moved = [(world.tasks[task_id], pool) for task_id, pool in needs.pool_edits if task_id in world.tasks]
    return wanted | {world.job_of(task).lane_key(task.room, pool) for task, pool in moved}


async def _add_lanes(world: World, wanted: set[tuple[int, str, str]]) -> None:
    missing = sorted(wanted - world.lanes.keys())
    numbers = await allocate(world.tx, "lane_id", len(missing))
    new = [Lane(number, *key) for number, key in zip(numbers, missing, strict=True)]
    await flush.insert_lanes(world.tx, new)
    for lane in new:
        world.lanes[lane.key] = lane

"""The unit of work: what a batch of commands has read, what they changed in memory, and how that is written at once.

Commands are applied one after another to the same objects, so each sees what the one before it did; the database sees
one bulk statement for each kind of change. See docs/decisions/0001.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.names import JobName
from treadle.wire.status import Status
from treadle_server.domain.jobs import Job, Lane, Worker
from treadle_server.domain.tasks import TASK_FIELDS, Hold, Run, Task
from treadle_server.engine.hub import Batch, Change
from treadle_server.engine.rules import Rules
from treadle_server.store import flush, load
from treadle_server.store.allocate import allocate
from treadle_server.store.base import Tx
from treadle_server.store.counts import CountKey, apply_counts, open_counts, pending_counts
from treadle_server.store.targets import lock_targets, settle_targets, settle_tasks, targets_by_name


@dataclass(slots=True)
class Needs:
    """What the commands of a batch want read before they are applied."""

    tasks: set[TaskId] = field(default_factory=set)
    workers: set[WorkerId] = field(default_factory=set)
    tasks_of: set[WorkerId] = field(default_factory=set)
    """Workers whose open runs are wanted."""
    holds_of: set[WorkerId] = field(default_factory=set)
    job_names: set[JobName] = field(default_factory=set)
    job_nums: set[int] = field(default_factory=set)
    jobs_change: bool = False
    new_tasks: list[tuple[JobName, str, str | None]] = field(default_factory=list)
    """For each new task: its job, the room it is submitted from, and the pool that the call names."""
    targets: set[tuple[str, str]] = field(default_factory=set)
    unique_keys: set[tuple[JobName, str]] = field(default_factory=set)
    runs: set[tuple[TaskId, int]] = field(default_factory=set)
    owners_of: set[TaskId] = field(default_factory=set)
    """Tasks whose worker is wanted too."""
    jobs_of: set[TaskId] = field(default_factory=set)
    """Tasks whose job is wanted too, and who holds their unique key now."""
    target_edits: set[tuple[TaskId, str]] = field(default_factory=set)
    found: dict[str, int] = field(default_factory=dict)
    """Finders of `load.tasks_found`, and how many tasks are wanted of each."""
    stale: timedelta | None = None
    """How long a worker may be silent; those that were longer are wanted with what they hold."""
    ended_holds: bool = False
    new_jobs: int = 0


class World:
    """What one batch knows and changes."""

    def __init__(self, tx: Tx, now: datetime, rules: Rules, draw: Callable[[], float]) -> None:
        self.tx = tx
        self.now = now
        self.rules = rules
        self.draw = draw
        self.tasks: dict[TaskId, Task] = {}
        self.jobs: dict[JobName, Job] = {}
        self.jobs_by_num: dict[int, Job] = {}
        self.workers: dict[WorkerId, Worker] = {}
        self.lanes: dict[tuple[int, str, str], Lane] = {}
        self.targets: dict[tuple[str, str], int] = {}
        self.unique: dict[tuple[int, str], Task] = {}
        self.pending: Counter[tuple[int, int]] = Counter()
        self.resolved: dict[tuple[int, int], Run] = {}
        self.holds: dict[tuple[int, int], Hold] = {}
        self.found: dict[str, list[Task]] = {}
        self.stale: list[WorkerId] = []
        self.released: list[tuple[TaskId, int]] = []
        """Runs whose code has ended: their weight is free."""
        self._before: dict[int, tuple[Any, ...]] = {}
        self._was: dict[int, Status | None] = {}
        self._last_change: dict[int, int] = {}
        self._new_tasks: list[Task] = []
        self._new_runs: list[Run] = []
        self._new_jobs: list[Job] = []
        self._changed_jobs: dict[int, Job] = {}
        self._new_schemas: list[Job] = []
        self._new_workers: list[Worker] = []
        self._changed_workers: dict[WorkerId, Worker] = {}
        self._gone_workers: set[WorkerId] = set()
        self._links: set[tuple[WorkerId, int]] = set()
        self._unlinked: set[WorkerId] = set()
        self._new_holds: dict[tuple[int, int], Hold] = {}
        self._renewed_holds: dict[tuple[int, int], Hold] = {}
        self._gone_holds: set[tuple[int, int]] = set()
        self._logs: list[dict[str, Any]] = []
        self._orphans: set[int] = set()
        self.left_targets: set[int] = set()
        """Targets that a task was moved away from."""
        self._freed_targets: set[int] = set()
        self._line = int(now.timestamp() * 1e6)
        self._seqs: list[int] = []
        self._job_nums: list[int] = []
        self.batch = Batch(at=now)
        self.woken: set[int] = set()
        """Lanes in which something became claimable."""
        self.wake_jobs: set[int] = set()
        """Jobs of which any lane may have become claimable."""

    # What commands read

    def job_of(self, task: Task) -> Job:
        """Return the task's job, which must have been asked for."""
        return self.jobs_by_num[task.job_num]

    def next_seq(self) -> int:
        """Return a new task's number."""
        return self._seqs.pop(0)

    def next_job_num(self) -> int:
        """Return a new job's number."""
        return self._job_nums.pop(0)

    # What commands change

    def open(self, task: Task) -> Task:
        """Prepare a task for a change; every command calls it before it changes one."""
        seq = task.seq
        if seq not in self._before:
            self._before[seq] = flush.task_values(task)
        if (index := self._last_change.pop(seq, None)) is not None:
            # An earlier change of this batch is to be told as it was then.
            change = self.batch.tasks[index]
            self.batch.tasks[index] = Change(copy.copy(task), change.was)
        self._was[seq] = task.status
        return task

    def changed(self, task: Task) -> None:
        """Tell that a transition of the task is to be published."""
        self._last_change[task.seq] = len(self.batch.tasks)
        self.batch.tasks.append(Change(task, self._was.get(task.seq)))

    def touched(self, task: Task) -> None:
        """Tell that something of the task changed that is no transition."""
        self.batch.touched.append(task)

    def add_task(self, task: Task) -> None:
        """Put in a new task."""
        self.tasks[task.id] = task
        self._was[task.seq] = None
        self._new_tasks.append(task)
        if task.unique_key is not None:
            self.unique[task.job_num, task.unique_key] = task
        self.changed(task)

    def add_run(self, task: Task, run: Run, *, code_ended: bool) -> None:
        """Keep a resolved run; `code_ended` says that its code is known to have stopped."""
        self._new_runs.append(run)
        self.resolved[run.task_seq, run.run_id] = run
        self.batch.runs.append(run)
        if code_ended:
            self.released.append((task.id, run.run_id))

    def add_hold(self, hold: Hold) -> None:
        """Let a run that is over keep its target and its worker's slot until its code has stopped."""
        self._new_holds[hold.task_seq, hold.run_id] = hold
        self.holds[hold.task_seq, hold.run_id] = hold

    def renew_hold(self, hold: Hold) -> None:
        """Extend a hold."""
        self._renewed_holds[hold.task_seq, hold.run_id] = hold
        self.holds[hold.task_seq, hold.run_id] = hold

    def end_hold(self, task: Task, run_id: int) -> bool:
        """End the hold of a run, and return whether there was one."""
        key = (task.seq, run_id)
        self.released.append((task.id, run_id))
        if (hold := self.holds.pop(key, None)) is None:
            return False
        self._gone_holds.add(key)
        if hold.target_num is not None:
            self._freed_targets.add(hold.target_num)
        return True

    def drop_hold(self, hold: Hold) -> None:
        """End a hold whose task was not read."""
        key = (hold.task_seq, hold.run_id)
        self.holds.pop(key, None)
        self._gone_holds.add(key)
        self.released.append((hold.task_id, hold.run_id))
        if hold.target_num is not None:
            self._freed_targets.add(hold.target_num)

    def add_job(self, job: Job) -> None:
        """Put in a new job."""
        self._new_jobs.append(job)
        self._new_schemas.append(job)
        self._know(job)
        self.batch.jobs.append(job)

    def change_job(self, job: Job, *, schema: bool = False) -> None:
        """Write a job that was changed; `schema` says that it has a new schema version."""
        job.version += 1
        if job not in self._new_jobs:
            self._changed_jobs[job.num] = job
        if schema:
            self._new_schemas.append(job)
        self.batch.jobs.append(job)

    def add_worker(self, worker: Worker) -> None:
        """Put in a new worker."""
        self._new_workers.append(worker)
        self.workers[worker.id] = worker
        self.batch.workers.append(worker)

    def change_worker(self, worker: Worker) -> None:
        """Write a worker that was changed."""
        if worker not in self._new_workers:
            self._changed_workers[worker.id] = worker
        self.batch.workers.append(worker)

    def remove_worker(self, worker: Worker) -> None:
        """Forget a worker; its tasks still tell that they had it."""
        self.unlink(worker)
        self._gone_workers.add(worker.id)
        self.workers.pop(worker.id, None)
        self.batch.workers.append(worker)

    def link(self, worker: Worker, job: Job) -> None:
        """Let a worker serve a job."""
        if job.num not in worker.jobs:
            worker.jobs.add(job.num)
            self._links.add((worker.id, job.num))

    def unlink(self, worker: Worker) -> None:
        """Drop a worker's links; jobs that it leaves alone may be orphans now."""
        self._orphans |= worker.jobs
        self._links = {pair for pair in self._links if pair[0] != worker.id}
        worker.jobs = set()
        self._unlinked.add(worker.id)

    def maybe_orphan(self, job_num: int) -> None:
        """Ask for a look whether the job has anyone left."""
        self._orphans.add(job_num)

    def next_line(self) -> int:
        """Return the number of a log line; they ascend within a run."""
        self._line += 1
        return self._line

    def add_log(self, task: Task, run_id: int, line: int, at: datetime, level: str, message: str) -> None:
        """Keep a line that the task's code logged."""
        self._logs.append(
            {"task_seq": task.seq, "run_id": run_id, "line": line, "at": at, "level": level, "message": message}
        )

    # Reading

    def _know(self, job: Job) -> None:
        self.jobs[JobName(job.room, job.category, job.name)] = job
        self.jobs_by_num[job.num] = job

    async def load(self, needs: Needs) -> None:
        """Read what the commands of a batch asked for."""
        for finder, most in needs.found.items():
            self.found[finder] = self._remember(await load.tasks_found(self.tx, finder, self.now, most))
        if needs.stale is not None:
            self.stale = await load.stale_workers(self.tx, self.now - needs.stale)
            needs.workers.update(self.stale)
            needs.tasks_of.update(self.stale)
        await self._load_jobs(needs)
        await self._load_tasks(needs)
        await self._load_around(needs)
        for worker in await load.workers_by_id(self.tx, needs.workers):
            self.workers[worker.id] = worker
        self._remember(await load.tasks_of_workers(self.tx, needs.tasks_of))
        await self._load_holds(needs)
        await self._load_new(needs)

    def _remember(self, tasks: Iterable[Task]) -> list[Task]:
        return [self.tasks.setdefault(task.id, task) for task in tasks]

    async def _load_tasks(self, needs: Needs) -> None:
        self._remember(await load.tasks_by_id(self.tx, needs.tasks - self.tasks.keys()))
        keys = {(self.jobs[name].num, key) for name, key in needs.unique_keys if name in self.jobs}
        for task in self._remember(await load.tasks_by_unique_key(self.tx, keys)):
            assert task.unique_key is not None
            self.unique[task.job_num, task.unique_key] = task
        stale = {
            (self.tasks[task_id].seq, run_id)
            for task_id, run_id in needs.runs
            if task_id in self.tasks and not (self.tasks[task_id].is_leased and self.tasks[task_id].run_id == run_id)
        }
        self.resolved |= await load.runs_by_key(self.tx, stale)

    async def _load_jobs(self, needs: Needs) -> None:
        for job in await load.jobs_by_name(self.tx, needs.job_names, to_change=needs.jobs_change):
            self._know(job)
        missing = needs.job_nums - self.jobs_by_num.keys()
        for job in await load.jobs_by_num(self.tx, missing, to_change=needs.jobs_change):
            self._know(job)
        self._job_nums = await allocate(self.tx, "job_num", needs.new_jobs)

    async def _load_around(self, needs: Needs) -> None:
        """Read what belongs to the tasks that were read: workers, jobs, holders of unique keys, targets to be."""
        for task_id in needs.owners_of & self.tasks.keys():
            if (worker_id := self.tasks[task_id].worker_id) is not None:
                needs.workers.add(worker_id)
        steered = [self.tasks[task_id] for task_id in needs.jobs_of & self.tasks.keys()]
        missing = {task.job_num for task in steered} - self.jobs_by_num.keys()
        for job in await load.jobs_by_num(self.tx, missing, to_change=needs.jobs_change):
            self._know(job)
        keys = {(task.job_num, task.unique_key) for task in steered if task.unique_key is not None}
        for task in self._remember(await load.tasks_by_unique_key(self.tx, keys)):
            assert task.unique_key is not None
            self.unique[task.job_num, task.unique_key] = task
        moved = {(self.tasks[task_id].room, name) for task_id, name in needs.target_edits if task_id in self.tasks}
        await self._add_targets(needs.targets | moved)

    async def _load_holds(self, needs: Needs) -> None:
        asked = {self.tasks[task_id].seq for task_id, _ in needs.runs if task_id in self.tasks}
        asked |= {task.seq for task_id, task in self.tasks.items() if task_id in needs.tasks and task.has_run}
        found = await load.holds_of_tasks(self.tx, asked)
        found += await load.holds_of_workers(self.tx, needs.holds_of)
        if needs.ended_holds:
            found += await load.ended_holds(self.tx, self.now)
        for hold in found:
            self.holds[hold.task_seq, hold.run_id] = hold

    async def _load_new(self, needs: Needs) -> None:
        """Make room for new tasks: their numbers, lanes, and the counts from which their position follows."""
        if not needs.new_tasks:
            return
        self._seqs = await allocate(self.tx, "task_seq", len(needs.new_tasks))
        nums = {self.jobs[name].num for name, _, _ in needs.new_tasks if name in self.jobs}
        for lane in await load.lanes_of_jobs(self.tx, nums):
            self.lanes[lane.key] = lane
        await self._add_lanes(needs)
        self.pending.update(await pending_counts(self.tx, [lane.id for lane in self.lanes.values()]))

    async def _add_lanes(self, needs: Needs) -> None:
        wanted = {
            self.jobs[name].lane_key(room, pool or self.rules.defaults_of(self.jobs[name]).get("pool"))
            for name, room, pool in set(needs.new_tasks)
            if name in self.jobs
        }
        missing = sorted(wanted - self.lanes.keys())
        numbers = await allocate(self.tx, "lane_id", len(missing))
        new = [Lane(number, *key) for number, key in zip(numbers, missing, strict=True)]
        await flush.insert_lanes(self.tx, new)
        for lane in new:
            self.lanes[lane.key] = lane

    async def _add_targets(self, wanted: set[tuple[str, str]]) -> None:
        if not wanted:
            return
        self.targets |= await targets_by_name(self.tx, wanted)
        missing = sorted(wanted - self.targets.keys())
        numbers = await allocate(self.tx, "target_num", len(missing))
        new = [(number, *key) for number, key in zip(numbers, missing, strict=True)]
        await flush.insert_targets(self.tx, new)
        self.targets |= {(room, name): number for number, room, name in new}

    # Writing

    async def write(self, *, settle: bool = True) -> None:
        """Write everything that the commands changed; the caller commits.

        `settle` may be false for claims alone: they take the one claimable task of a target, and the others are
        blocked already.
        """
        tx = self.tx
        await lock_targets(tx, self._touched_targets())
        await flush.insert_jobs(tx, self._new_jobs)
        await flush.update_jobs(tx, list(self._changed_jobs.values()))
        await flush.insert_schemas(tx, self._new_schemas, self.now)
        await flush.insert_workers(tx, self._new_workers)
        await flush.update_workers(tx, [w for w in self._changed_workers.values() if w.id not in self._gone_workers])
        await flush.unlink_all(tx, self._unlinked)
        await flush.link(tx, self._links)
        await flush.insert_tasks(tx, self._new_tasks)
        new = {task.seq for task in self._new_tasks}
        changed = [(t, self._before[t.seq]) for t in self._opened() if t.seq not in new]
        await flush.update_tasks(tx, changed)
        await flush.insert_runs(tx, self._new_runs)
        await flush.insert_logs(tx, self._logs)
        await self._write_holds()
        await apply_counts(tx, self._count_deltas())
        await flush.delete_workers(tx, self._gone_workers)
        if settle:
            await self._settle()
        await self._delete_orphans()

    def _opened(self) -> list[Task]:
        return [task for task in self.tasks.values() if task.seq in self._before]

    def _touched_targets(self) -> set[int]:
        touched = {task.target_num for task in self._opened() + self._new_tasks}
        touched |= {hold.target_num for hold in self.holds.values()} | self.left_targets | self._freed_targets
        return {num for num in touched if num is not None}

    async def _write_holds(self) -> None:
        await flush.delete_holds(self.tx, self._gone_holds - self._new_holds.keys())
        await flush.insert_holds(self.tx, [h for key, h in self._new_holds.items() if key not in self._gone_holds])
        await flush.update_holds(self.tx, [h for key, h in self._renewed_holds.items() if key not in self._gone_holds])

    def _count_deltas(self) -> Counter[CountKey]:
        deltas: Counter[CountKey] = Counter()
        names = TASK_FIELDS
        at = (names.index("lane"), names.index("status"), names.index("priority"))
        new = {task.seq for task in self._new_tasks}
        for task in self._new_tasks:
            deltas[_count_key(task.lane, task.status, task.priority)] += 1
        for task in self._opened():
            if task.seq not in new:
                lane, status, priority = (self._before[task.seq][i] for i in at)
                deltas[_count_key(lane, status, priority)] -= 1
                deltas[_count_key(task.lane, task.status, task.priority)] += 1
        return deltas

    async def _settle(self) -> None:
        """Decide anew which tasks of the touched targets, and of ended holds, may be claimed."""
        new = {task.seq for task in self._new_tasks}
        pending = [t for t in self._opened() + self._new_tasks if t.status is Status.PENDING]
        self.woken |= {task.lane for task in pending if not task.blocked}
        self.woken |= await settle_targets(self.tx, self._touched_targets())
        again = {task.seq for task in pending if task.target_num is None and task.seq not in new and task.has_run}
        ended = {seq for seq, _ in self._gone_holds}
        self.woken |= await settle_tasks(self.tx, again | ended)

    async def _delete_orphans(self) -> None:
        """Mark jobs deleted that nobody serves, with nothing open (Z6); never retained or internal ones."""
        nums = self._orphans
        if not nums:
            return
        missing = nums - self.jobs_by_num.keys()
        for job in await load.jobs_by_num(self.tx, missing, to_change=True):
            self._know(job)
        candidates = {
            num
            for num in nums
            if (found := self.jobs_by_num.get(num))
            and not (found.retain or found.is_internal or found.deleted_at is not None)
        }
        served = await load.served_jobs(self.tx, candidates)
        busy = await open_counts(self.tx, candidates - served)
        gone = [self.jobs_by_num[num] for num in candidates - served if not busy.get(num)]
        for job in gone:
            job.deleted_at = self.now
            job.version += 1
            self.batch.jobs.append(job)
        await flush.update_jobs(self.tx, gone)


def _count_key(lane: int, status: Status, priority: int) -> CountKey:
    return (lane, status, priority if status is Status.PENDING else 0)


__all__ = ["Needs", "World"]

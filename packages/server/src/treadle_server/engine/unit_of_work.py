"""The unit of work: what a batch of commands has read and changed in memory, to be written at once.

Commands are applied one after another to the same objects, so each sees the changes of those before it; the database
sees one bulk statement for each kind of change. See docs/decisions/0001.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cached_property

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.names import INTERNAL, JobName
from treadle.wire.runs import LogLine
from treadle.wire.status import Status
from treadle_server.domain.admission import Admission
from treadle_server.domain.artifacts import Artifact
from treadle_server.domain.jobs import Job, Lane, Worker
from treadle_server.domain.limits import BucketId, Limit
from treadle_server.domain.schedules import Schedule
from treadle_server.domain.superseding import Rivals
from treadle_server.domain.tasks import Hold, Run, Task, copy_of
from treadle_server.engine.changes import Changes
from treadle_server.engine.dependencies import Dependencies
from treadle_server.engine.due_ahead import DueAhead
from treadle_server.engine.hub import Batch, Change
from treadle_server.engine.rules import Rules
from treadle_server.engine.step_book import StepBook
from treadle_server.store.base import Tx
from treadle_server.store.transaction.claim_keys import KeptClaim, KeyOf
from treadle_server.store.transaction.counts import Queue
from treadle_server.store.transaction.gates import Touched
from treadle_server.store.transaction.targets import reblock_targets


class LogLineNumbers:
    """Numbers log lines in ascending order: by the clock, or one by one when it stands still or goes back."""

    def __init__(self) -> None:
        self._last = 0

    def next(self, now: datetime) -> int:
        """Return the next number, greater than those that other servers gave before this instant."""
        self._last = max(self._last, int(now.timestamp() * 1e6)) + 1
        return self._last


class UnitOfWork:
    """What one batch knows and changes; parts that plain submits and reports don't need are made on first use."""

    def __init__(
        self,
        tx: Tx,
        now: datetime,
        rules: Rules,
        draw: Callable[[], float],
        log_lines: LogLineNumbers,
        due_ahead: DueAhead,
    ) -> None:
        self.tx = tx
        self.now = now
        self.is_plain = True
        """Whether it holds only plain submits and plain reports, which the fast path handles."""
        self.rules = rules
        self.draw = draw
        self.due_ahead = due_ahead
        self.tasks: dict[TaskId, Task] = {}
        self.jobs: dict[JobName, Job] = {}
        self.jobs_by_num: dict[int, Job] = {}
        self.workers: dict[WorkerId, Worker] = {}
        self.lanes: dict[tuple[int, str, str], Lane] = {}
        self.targets: dict[tuple[str, str], int] = {}
        self.unique: dict[tuple[int, str], Task] = {}
        self.queues: dict[Queue, Counter[int]] = {}
        """How many tasks wait, by priority, in each job's queue (a fair job has one for each room), with new ones."""
        self.resolved: dict[tuple[int, int], Run] = {}
        self.past_owners: dict[int, set[str]] = {}
        self.holds: dict[tuple[int, int], Hold] = {}
        self.found: dict[str, list[Task]] = {}
        self.reads_on = False
        """Whether there are more tasks due soon to be read ahead."""
        self.artifacts: dict[tuple[int, int, str], Artifact] = {}
        self.dead_artifacts: list[Artifact] = []
        self.schedules: dict[str, Schedule] = {}
        self.schedules_by_name: dict[tuple[str, str], Schedule] = {}
        self.due_schedules: list[Schedule] = []
        self.acting: set[str] = set()
        """The owners of its schedules who have a valid token, or need none."""
        self.open_instances: set[TaskId] = set()
        """The last instances of its schedules that were open when the batch began."""
        self.limits: dict[tuple[str, str], Limit] = {}  # by room and name
        self.named_limits: set[tuple[str, str]] = set()
        """Limits that are to be changed or deleted and that open tasks or jobs name."""
        self.due_bucket_ids: list[BucketId] = []
        """Buckets with tasks in line that have a token by now."""
        self.rivals: dict[int, Rivals] = {}
        """The tasks that new ones may supersede, by bucket."""
        self.own_uses: list[tuple[int, int, int, int]] = []
        """What the runs that the batch may end use of limits: task, run, bucket, weight."""
        self.limited = Touched()
        """What was done to tasks with limits."""
        self.stale: list[WorkerId] = []
        self.present: list[WorkerId] = []
        self.kept_claims: dict[KeyOf, KeptClaim] = {}
        self.released: list[tuple[TaskId, int]] = []
        """Runs whose code has ended, so that their weight is free."""
        self.left_targets: set[int] = set()
        """Targets from which a task was moved to another."""
        self._log_lines = log_lines
        self.seqs: deque[int] = deque()
        """Numbers of new tasks."""
        self.job_nums: deque[int] = deque()
        """Numbers of new jobs."""
        self.counted: Counter[tuple[int, str, int]] = Counter()
        """How the changes that were written alter the kept counts."""
        self.left_ends: Counter[tuple[int, str]] = Counter()
        """How many ended tasks were run again or removed, by lane and the terminal status that they had."""
        self.batch = Batch(at=now, is_exclusive=tx.is_exclusive)
        self.woken: set[int] = set()
        """Lanes in which something became claimable."""
        self.wake_jobs: set[int] = set()
        """Jobs of which any lane may have become claimable, by number."""

    @cached_property
    def changes(self) -> Changes:
        """Return what the commands changed."""
        return Changes()

    @cached_property
    def dependencies(self) -> Dependencies:
        """Return what is known and changed of dependencies between tasks."""
        return Dependencies()

    @cached_property
    def steps(self) -> StepBook:
        """Return what is known and changed of steps and messages."""
        return StepBook()

    @cached_property
    def admission(self) -> Admission:
        """Return the state of the limits that reject."""
        return Admission()

    @property
    def opened(self) -> list[Task]:
        """Return the tasks that existed before the batch and that it may have changed."""
        before = self.changes.before
        return [task for task in self.tasks.values() if task.seq in before] if before else []

    @property
    def written(self) -> list[Task]:
        """Return the tasks to be written: those of `opened`, and the batch's new ones."""
        return [*self.opened, *self.changes.new_tasks.values()]

    @property
    def reordered(self) -> set[int]:
        """Return the lanes in which a pending task was added, removed or moved."""
        lanes = {task.lane for task in self.changes.new_tasks.values()}
        for task in self.tasks.values():
            if (before := self.changes.before.get(task.seq)) is None:
                continue
            if Status.PENDING in {before.status, task.status}:
                lanes |= {before.lane, task.lane}
        return lanes | self.woken | self.dependencies.lanes

    # What commands read

    def job_of(self, task: Task) -> Job:
        """Return the task's job, which a command must have declared in its `reads`."""
        return self.jobs_by_num[task.job_num]

    # What is read

    def know(self, job: Job) -> None:
        """Remember a job that was read or created."""
        self.jobs[JobName(job.room, job.category, job.name)] = job
        self.jobs_by_num[job.num] = job

    def know_schedule(self, schedule: Schedule) -> Schedule:
        """Remember a schedule that was read or created, and return its object; a known one keeps its object."""
        known = self.schedules.setdefault(schedule.id, schedule)
        self.schedules_by_name[schedule.room, schedule.name] = known
        return known

    def remember(self, tasks: Iterable[Task]) -> list[Task]:
        """Remember tasks that were read, and return their objects; a known one keeps its object."""
        return [self.tasks.setdefault(task.id, task) for task in tasks]

    # What commands change

    def open(self, task: Task) -> Task:
        """Prepare a task for a change; every command must call this before it changes one."""
        seq = task.seq
        if seq not in self.changes.before and seq not in self.changes.new_tasks:
            self.changes.before[seq] = copy_of(task)
        if (index := self.changes.last_change.pop(seq, None)) is not None:
            # An earlier change in this batch is published as the task was then.
            change = self.batch.tasks[index]
            self.batch.tasks[index] = Change(copy_of(task), change.was)
        self.changes.was[seq] = task.status
        return task

    def changed(self, task: Task) -> None:
        """Note that a transition of the task is to be published."""
        self.changes.last_change[task.seq] = len(self.batch.tasks)
        self.batch.tasks.append(Change(task, self.changes.was.get(task.seq)))

    def touched(self, task: Task) -> None:
        """Note that the task has changed without a transition."""
        self.batch.touched.append(task)

    def add_task(self, task: Task) -> None:
        """Add a new task."""
        self.tasks[task.id] = task
        self.changes.was[task.seq] = None
        self.changes.new_tasks[task.seq] = task
        if task.unique_key is not None:
            self.unique[task.job_num, task.unique_key] = task
        self.changed(task)

    def rekey(self, task: Task, unique_key: str | None) -> None:
        """Give an open task another unique key, or none; the caller has checked that it is free."""
        if task.unique_key is not None and self.unique.get((task.job_num, task.unique_key)) is task:
            del self.unique[task.job_num, task.unique_key]
        task.unique_key = unique_key
        if unique_key is not None:
            self.unique[task.job_num, unique_key] = task

    def add_run(self, task: Task, run: Run, *, code_ended: bool) -> None:
        """Add a run that has ended; `code_ended` says that its code is known to have stopped."""
        if task.digest is None:  # otherwise the task's own row records it
            self.keep_run(run)
        self.resolved[run.task_seq, run.run_id] = run
        self.batch.runs.append(run)
        if code_ended:
            self.released.append((task.id, run.run_id))

    def keep_run(self, run: Run) -> None:
        """Write the record of an ended run that its task's row does not hold, or soon will not hold any more."""
        self.changes.new_runs.append(run)

    def add_hold(self, hold: Hold) -> None:
        """Let an ended run keep its target and its worker's slot until its code has stopped."""
        self.changes.new_holds[hold.task_seq, hold.run_id] = hold
        self.holds[hold.task_seq, hold.run_id] = hold

    def renew_hold(self, hold: Hold) -> None:
        """Write the hold with its new end."""
        self.changes.renewed_holds[hold.task_seq, hold.run_id] = hold
        self.holds[hold.task_seq, hold.run_id] = hold

    def end_hold(self, task: Task, run_id: int) -> None:
        """End the hold of a run whose code has stopped, if it has one; its room at the worker is freed in any case."""
        if (hold := self.holds.get((task.seq, run_id))) is not None:
            self.drop_hold(hold)
        else:
            self.released.append((task.id, run_id))

    def drop_hold(self, hold: Hold) -> None:
        """End a hold; its target and its room at the worker are free after the commit."""
        key = (hold.task_seq, hold.run_id)
        self.holds.pop(key, None)
        self.changes.gone_holds.add(key)
        self.released.append((hold.task_id, hold.run_id))
        self.batch.freed.add(hold.worker_id)
        if hold.target_num is not None:
            self.changes.freed_targets.add(hold.target_num)
        if hold.is_limited:
            self.limited.seqs.add(hold.task_seq)

    def add_job(self, job: Job) -> None:
        """Add a new job."""
        self.changes.new_jobs.append(job)
        self.changes.new_schemas.append((job.num, job.schema_version, job.schema))
        self.know(job)
        self.batch.jobs.append(job)

    def change_job(self, job: Job, *, schema: bool = False) -> None:
        """Write a changed job; `schema` says that it has a new schema version."""
        job.version += 1
        if job not in self.changes.new_jobs:
            self.changes.changed_jobs[job.num] = job
        if schema:
            self.changes.new_schemas.append((job.num, job.schema_version, job.schema))
        self.batch.jobs.append(job)

    def add_worker(self, worker: Worker) -> None:
        """Add a new worker."""
        self.changes.new_workers.append(worker)
        self.workers[worker.id] = worker
        self.batch.workers.append(worker)

    def change_worker(self, worker: Worker) -> None:
        """Write a changed worker."""
        if worker not in self.changes.new_workers:
            self.changes.changed_workers[worker.id] = worker
        self.batch.workers.append(worker)

    def remove_worker(self, worker: Worker) -> None:
        """Delete a worker; its tasks still name it."""
        self.unlink(worker)
        self.changes.gone_workers.add(worker.id)
        self.workers.pop(worker.id, None)
        self.batch.workers.append(worker)

    def link(self, worker: Worker, job: Job) -> None:
        """Let a worker serve a job; only the server's own workers serve `@internal` jobs."""
        if job.is_internal and worker.owner != INTERNAL:
            return
        # Even if it is linked already: the worker may have come back without that job.
        self.batch.links.add((worker.id, job.num))
        if job.num not in worker.jobs:
            worker.jobs.add(job.num)
            self.changes.links.add((worker.id, job.num))

    def unlink(self, worker: Worker) -> None:
        """Drop a worker's links; the jobs that it served may be orphans now."""
        self.changes.orphans |= worker.jobs
        self.changes.links = {pair for pair in self.changes.links if pair[0] != worker.id}
        worker.jobs = set()
        self.changes.unlinked.add(worker.id)

    def put_limit(self, limit: Limit) -> Limit:
        """Write a limit that was created or changed; the tasks that wait for it are decided again."""
        self.changes.gone_limits.discard(limit.num)
        self.limits[limit.room, limit.name] = self.changes.limits[limit.num] = limit
        self.batch.has_limits = True
        return limit

    def delete_limit(self, limit: Limit) -> None:
        """Delete a limit with all of its counts."""
        self.limits.pop((limit.room, limit.name), None)
        self.changes.limits.pop(limit.num, None)
        self.changes.gone_limits.add(limit.num)
        self.batch.has_limits = True

    def add_artifact(self, artifact: Artifact) -> None:
        """Add an announced artifact."""
        self.changes.new_artifacts.append(artifact)
        self.artifacts[artifact.key] = artifact

    def write_artifact(self, artifact: Artifact) -> None:
        """Write an artifact whose object is complete, or whose digest was announced after the rest."""
        if artifact not in self.changes.new_artifacts and artifact not in self.changes.changed_artifacts:
            self.changes.changed_artifacts.append(artifact)

    def remove_artifact(self, artifact: Artifact) -> None:
        """Delete an artifact's row."""
        self.changes.gone_artifacts.add(artifact.id)
        self.artifacts.pop(artifact.key, None)

    async def reblock(self, targets: set[int]) -> None:
        """Decide again which tasks of the targets, given by number, may be claimed."""
        if targets:
            woken, lines = await reblock_targets(self.tx, targets)
            self.woken |= woken
            self.limited.lines |= lines

    def maybe_orphan(self, job_num: int) -> None:
        """Have it checked, when the batch is written, whether the job is an orphan."""
        self.changes.orphans.add(job_num)

    def add_schedule(self, schedule: Schedule) -> None:
        """Add a new schedule."""
        self.changes.new_schedules.append(schedule)
        self.know_schedule(schedule)
        self.batch.schedules.append(schedule)

    def change_schedule(self, schedule: Schedule) -> None:
        """Write a changed schedule; it is published once, however often it was changed."""
        self._write_schedule(schedule)
        if schedule not in self.batch.schedules:
            self.batch.schedules.append(schedule)

    def tick_schedule(self, schedule: Schedule) -> None:
        """Write a schedule that has made a task; the task is published by itself."""
        self._write_schedule(schedule)
        self.batch.has_ticks = True

    def _write_schedule(self, schedule: Schedule) -> None:
        if schedule not in self.changes.new_schedules:
            self.changes.changed_schedules[schedule.id] = schedule

    def add_log(self, task: Task, line: LogLine) -> None:
        """Add a line that the code of the task's run has logged; without a time of its own it gets the current one."""
        number, at = self._log_lines.next(self.now), line.at or self.now
        self.changes.logs.append((task.seq, task.run_id, number, at, line.level, line.message))

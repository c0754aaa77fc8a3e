"""Commands by which workers register, serve jobs and leave."""

from dataclasses import dataclass

from uuid_utils import uuid7

from treadle.wire.ids import WorkerId
from treadle.wire.names import JobName, parse_job_name
from treadle.wire.status import Outcome, Reason, WorkerState
from treadle_server.access.checks import check_own, check_register, check_worker
from treadle_server.access.principal import Principal
from treadle_server.domain import life
from treadle_server.domain.jobs import Job, Worker
from treadle_server.domain.life import Ending
from treadle_server.domain.tasks import ClaimKey, Task
from treadle_server.engine.commands.base import OneRow
from treadle_server.engine.commands.steering import end_run
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import JobNotFound, TaskConflict, WorkerNotFound

DISCONNECTED = "Worker disconnected"
"""The error of a task whose worker was lost."""


def get_worker(work: UnitOfWork, principal: Principal, worker_id: WorkerId) -> Worker:
    """Return the caller's worker. Raises `WorkerNotFound`, or `Forbidden` if the caller may not act as it."""
    if (worker := work.workers.get(worker_id)) is None:
        raise WorkerNotFound(f"there is no worker {worker_id}: it must register again with POST /v1/workers")
    check_own(principal, worker)
    return worker


def check_present(worker: Worker) -> None:
    """Raise `WorkerNotFound` if the worker is lost: it no longer serves any job, so it must register again."""
    if worker.state is WorkerState.LOST:
        raise WorkerNotFound(f"worker {worker.id} was not heard from for too long and is lost: it must register again")


def revive(work: UnitOfWork, worker: Worker) -> None:
    """Note that the worker was just heard from; a lost one is online again."""
    worker.last_heartbeat, worker.run_lost_at = work.now, None
    if worker.state is WorkerState.LOST:
        worker.state = WorkerState.ONLINE
        worker.lost_at = None
    work.change_worker(worker)


def note_loss(work: UnitOfWork, worker_id: WorkerId | None) -> None:
    """Note that a run was taken from the worker: it now owes a heartbeat, even if it holds nothing any more."""
    if worker_id is not None and (worker := work.workers.get(worker_id)) is not None:
        worker.run_lost_at = work.now
        work.change_worker(worker)


def lose_run(work: UnitOfWork, task: Task, reason: Reason, error: str, *, is_over: bool = False) -> None:
    """End a run whose worker is gone: its task is requeued within its budget, and fails beyond it (Z11, G8).

    Its target and its room in limits stay held until the run's lease ends, unless it `is_over`: a worker that was given
    up or removed may run the code until then.
    """
    work.open(task)
    ending = Ending(Outcome.EXCEPTION, reason, error)
    note_loss(work, task.worker_id)
    is_exclusive = task.target_num is not None or task.limit_key is not None
    until = task.taken_until if is_exclusive and not is_over else None
    end_run(work, task, life.fail(task, ending, work.now, work.draw), until)


def runs_of(work: UnitOfWork, worker_id: WorkerId) -> list[Task]:
    """Return the tasks that are claimed or running at this worker; `tasks_of` must have asked for them."""
    return [task for task in work.tasks.values() if task.is_leased and task.worker_id == worker_id]


@dataclass(slots=True, kw_only=True)
class RegisterWorker(OneRow):
    """Registers a worker, or one that comes back under its id."""

    principal: Principal
    id: WorkerId | None = None
    name: str | None = None
    group: str | None = None
    pool: str | None = None
    version: str | None = None
    concurrency: int | None = None
    min_concurrency: int = 0
    draining: bool | None = None
    """Whether it takes no tasks, not yet or no more; None leaves that: it may have been asked to drain meanwhile."""
    home: str | None = None
    """The start of the server on whose socket it connects."""

    def reads(self, reads: ReadSet) -> None:
        """Read the worker, if it has an id already."""
        if self.id is not None:
            reads.workers.add(self.id)

    def apply(self, work: UnitOfWork) -> Worker:
        """Return the worker. Raises `Forbidden` if the id is another user's or a scope is missing."""
        check_worker(self.principal, self.group, self.name, self.pool)
        worker = work.workers.get(self.id) if self.id is not None else None
        if worker is None:
            worker = Worker(
                self.id or WorkerId(str(uuid7())), self.principal.user, created_at=work.now, last_heartbeat=work.now
            )
            self._describe(worker, work)
            work.add_worker(worker)
        else:
            get_worker(work, self.principal, worker.id)
            self._describe(worker, work)
            revive(work, worker)
        return worker

    def _describe(self, worker: Worker, work: UnitOfWork) -> None:
        worker.home, worker.home_at = self.home, None if self.home is None else work.now
        worker.name, worker.group, worker.pool, worker.version = self.name, self.group, self.pool, self.version
        worker.concurrency, worker.min_concurrency = self.concurrency or 1, self.min_concurrency
        worker.is_limited = self.concurrency is not None
        if self.draining is not None:
            worker.state = WorkerState.DRAINING if self.draining else WorkerState.ONLINE
        worker.lost_at = None


@dataclass(slots=True, kw_only=True)
class OfWorker(OneRow):
    """A command about one worker."""

    principal: Principal
    worker_id: WorkerId

    def reads(self, reads: ReadSet) -> None:
        """Read the worker."""
        reads.workers.add(self.worker_id)


@dataclass(slots=True, kw_only=True)
class LinkJobs(OfWorker):
    """Lets a worker serve jobs that are already registered."""

    job_names: list[str]

    def reads(self, reads: ReadSet) -> None:
        """Read the worker and the jobs."""
        OfWorker.reads(self, reads)
        reads.job_names |= {job_name_or_404(name) for name in self.job_names}
        reads.jobs_change = True

    def apply(self, work: UnitOfWork) -> list[Job]:
        """Return the jobs. Raises `WorkerNotFound`, `Forbidden` or `JobNotFound`."""
        worker = get_worker(work, self.principal, self.worker_id)
        found = []
        for name in self.job_names:
            job = work.jobs.get(job_name_or_404(name))
            if job is not None:
                check_register(self.principal, job.room)
            if job is None or job.deleted_at is not None:
                raise JobNotFound(f"there is no job {name}: register it with its schema first")
            found.append(job)
        for job in found:
            work.link(worker, job)
        return found


@dataclass(slots=True, kw_only=True)
class DrainWorker(OfWorker):
    """Asks a worker to take no more, finish what it runs and exit; it learns so at once or with its next heartbeat."""

    def apply(self, work: UnitOfWork) -> Worker:
        """Return the worker. Raises `WorkerNotFound`, also for one that is lost, or `Forbidden`."""
        worker = get_worker(work, self.principal, self.worker_id)
        check_present(worker)
        if worker.state is not WorkerState.DRAINING:
            worker.state = WorkerState.DRAINING
            work.change_worker(worker)
        return worker


@dataclass(slots=True, kw_only=True)
class RemoveWorker(OfWorker):
    """Removes a worker for good; the runs that it still holds end as lost."""

    rows = 10

    def reads(self, reads: ReadSet) -> None:
        """Read the worker and what it holds."""
        reads.worker(self.worker_id)

    def apply(self, work: UnitOfWork) -> None:
        """Remove the worker. Raises `WorkerNotFound` or `Forbidden`."""
        worker = get_worker(work, self.principal, self.worker_id)
        for task in runs_of(work, worker.id):
            lose_run(work, task, Reason.WORKER_SHUTDOWN, DISCONNECTED)
        work.remove_worker(worker)


@dataclass(slots=True, kw_only=True)
class FindWorker(OfWorker):
    """Looks up a worker and its jobs before it claims; a claim is a sign of life."""

    def apply(self, work: UnitOfWork) -> Worker:
        """Return the worker. Raises `WorkerNotFound` or `Forbidden`."""
        worker = get_worker(work, self.principal, self.worker_id)
        check_worker(self.principal, worker.group, worker.name, worker.pool)
        check_present(worker)
        if work.now > worker.last_heartbeat:
            revive(work, worker)
        return worker


@dataclass(slots=True, kw_only=True)
class FindClaims(OfWorker):
    """Looks up what a worker has claimed under a key, when it repeats the request."""

    key: ClaimKey

    def reads(self, reads: ReadSet) -> None:
        """Read the worker, and what it claimed under the key."""
        OfWorker.reads(self, reads)
        reads.claim_keys.add((self.worker_id, self.key.text))

    def apply(self, work: UnitOfWork) -> list[Task] | None:
        """Return those of the claims that it still holds, or None if nothing was claimed under the key.

        Raises `TaskConflict` if the key was used for another request, `WorkerNotFound` or `Forbidden`.
        """
        get_worker(work, self.principal, self.worker_id)
        kept = work.kept_claims.get((self.worker_id, self.key.text))
        if kept is None:
            return None
        if kept.body != self.key.body:
            raise TaskConflict(
                f"the Idempotency-Key {self.key.text!r} was used for a claim with another body; use a new key for each"
                " request, and the same key only to repeat one"
            )
        claimed = [(work.tasks.get(task_id), run_id) for task_id, run_id in kept.runs]
        return [
            task
            for task, run_id in claimed
            if task is not None and task.is_leased and (task.worker_id, task.run_id) == (self.worker_id, run_id)
        ]


def job_name_or_404(name: str) -> JobName:
    """Return the parsed name. Raises `JobNotFound` if it is not valid."""
    try:
        return parse_job_name(name)
    except ValueError as error:
        raise JobNotFound(str(error)) from None

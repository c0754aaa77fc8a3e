"""Workers come, serve jobs, and go."""

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
    """Return the asker's worker. Raises `WorkerNotFound`, or `Forbidden` when it is not the asker's to be."""
    if (worker := work.workers.get(worker_id)) is None:
        raise WorkerNotFound(f"there is no worker {worker_id}: register again with POST /v1/workers")
    check_own(principal, worker)
    return worker


def check_present(worker: Worker) -> None:
    """Raise `WorkerNotFound` when the worker is lost: it serves no job any more, so it must register again."""
    if worker.state is WorkerState.LOST:
        raise WorkerNotFound(f"worker {worker.id} was not heard from for too long and is lost: register again")


def revive(work: UnitOfWork, worker: Worker) -> None:
    """Note that the worker was heard of just now; a lost one is online again."""
    worker.last_heartbeat, worker.run_lost_at = work.now, None
    if worker.state is WorkerState.LOST:
        worker.state = WorkerState.ONLINE
        worker.lost_at = None
    work.change_worker(worker)


def note_loss(work: UnitOfWork, worker_id: WorkerId | None) -> None:
    """Note that a run was taken from the worker: it owes a heartbeat, however much it has lost."""
    if worker_id is not None and (worker := work.workers.get(worker_id)) is not None:
        worker.run_lost_at = work.now
        work.change_worker(worker)


def lose_run(work: UnitOfWork, task: Task, reason: Reason, error: str, *, is_over: bool = False) -> None:
    """End a run whose worker is gone: requeued within budget, failed beyond (Z11, G8).

    Its target and its room in limits stay held until the run's lease ends, unless it `is_over`: a worker that was given
    up, or removed, may run its code until then.
    """
    work.open(task)
    ending = Ending(Outcome.EXCEPTION, reason, error)
    note_loss(work, task.worker_id)
    is_exclusive = task.target_num is not None or task.limit_key is not None
    until = task.taken_until if is_exclusive and not is_over else None
    end_run(work, task, life.fail(task, ending, work.now, work.draw), until)


def runs_of(work: UnitOfWork, worker_id: WorkerId) -> list[Task]:
    """Return the tasks of the unit of work that are claimed or running at this worker; read them first (`tasks_of`)."""
    return [task for task in work.tasks.values() if task.is_leased and task.worker_id == worker_id]


@dataclass(slots=True, kw_only=True)
class RegisterWorker(OneRow):
    """A worker comes, or comes back under its id."""

    principal: Principal
    id: WorkerId | None = None
    name: str | None = None
    group: str | None = None
    pool: str | None = None
    version: str | None = None
    concurrency: int | None = None
    min_concurrency: int = 0
    draining: bool | None = None
    """Whether it takes nothing yet, or no more; None: as it was, for it may have been asked to drain meanwhile."""
    home: str | None = None
    """The start of the server on whose socket it opens itself."""

    def reads(self, reads: ReadSet) -> None:
        """Read the worker that it was."""
        if self.id is not None:
            reads.workers.add(self.id)

    def apply(self, work: UnitOfWork) -> Worker:
        """Return the worker. Raises `Forbidden` when the id is another user's, or a scope is missing."""
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
    """What is asked of one worker."""

    principal: Principal
    worker_id: WorkerId

    def reads(self, reads: ReadSet) -> None:
        """Read the worker."""
        reads.workers.add(self.worker_id)


@dataclass(slots=True, kw_only=True)
class LinkJobs(OfWorker):
    """A worker serves jobs that are registered already."""

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
    """A worker is to take no more, end what it runs, and go; it hears of it at once, or with its next heartbeat."""

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
    """A worker goes for good: what it still holds ends as lost."""

    rows = 10

    def reads(self, reads: ReadSet) -> None:
        """Read the worker and what it holds."""
        reads.worker(self.worker_id)

    def apply(self, work: UnitOfWork) -> None:
        """Raises `WorkerNotFound` or `Forbidden`."""
        worker = get_worker(work, self.principal, self.worker_id)
        for task in runs_of(work, worker.id):
            lose_run(work, task, Reason.WORKER_SHUTDOWN, DISCONNECTED)
        work.remove_worker(worker)


@dataclass(slots=True, kw_only=True)
class FindWorker(OfWorker):
    """Looks a worker up before it claims, with the jobs that it serves; a claim is a sign of life."""

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
    """Looks up what a worker has claimed under a key, when it asks again."""

    key: ClaimKey

    def reads(self, reads: ReadSet) -> None:
        """Read the worker, and what was claimed."""
        OfWorker.reads(self, reads)
        reads.claim_keys.add((self.worker_id, self.key.text))

    def apply(self, work: UnitOfWork) -> list[Task] | None:
        """Return those of the claims that it still holds; None when nothing was claimed under the key.

        Raises `TaskConflict` when it was another request, `WorkerNotFound` or `Forbidden`.
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
    """Return the parsed name. Raises `JobNotFound` when it is none."""
    try:
        return parse_job_name(name)
    except ValueError as error:
        raise JobNotFound(str(error)) from None

"""Heartbeats: they renew leases, and tell the worker what it must stop."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import WorkerState
from treadle.wire.workers import Renewal, RunRef
from treadle_server.access.checks import speaks_for
from treadle_server.access.principal import Principal
from treadle_server.domain import life
from treadle_server.domain.jobs import Worker
from treadle_server.domain.tasks import Hold, Lease, RunKey, Task, lease_of
from treadle_server.domain.usage import is_over_budget
from treadle_server.engine.commands.hand_back import give_up, take_back
from treadle_server.engine.commands.reports import take_report
from treadle_server.engine.commands.run_report import RunReport
from treadle_server.engine.commands.steering import expire_task
from treadle_server.engine.commands.workers import check_present, get_worker, revive, runs_of
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork


@dataclass(slots=True)
class Beaten:
    """The answer to a heartbeat."""

    worker: Worker
    cancel: list[RunKey] = field(default_factory=list)
    pause: list[RunKey] = field(default_factory=list)
    gone: list[RunKey] = field(default_factory=list)
    taken_until: list[Lease] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    """Renewed holds: of runs that have ended but whose code still runs."""


@dataclass(slots=True, kw_only=True)
class Beat:
    """A worker's heartbeat; if `tasks` is None, it renews every lease that the worker holds."""

    principal: Principal
    worker_id: WorkerId
    tasks: list[Renewal] | None = None
    stopped: list[RunRef] = field(default_factory=list)
    draining: bool | None = None
    revives: bool = True
    """Whether it brings a lost worker back: true on the socket, where the slot says what the worker serves."""

    @property
    def rows(self) -> int:
        """Return how many tasks the heartbeat may write."""
        return 1 + len(self.tasks or ())

    def reads(self, reads: ReadSet) -> None:
        """Read the worker, what it holds, and what it names."""
        reads.worker(self.worker_id)
        for ref in [*(self.tasks or ()), *self.stopped]:
            reads.tasks.add(TaskId(ref.task_id))
            reads.runs.add((TaskId(ref.task_id), ref.run_id))

    def apply(self, work: UnitOfWork) -> Beaten:
        """Renew what the worker holds. Raises `WorkerNotFound` or `Forbidden`."""
        worker = self._worker(work)
        if not self.revives:
            check_present(worker)
        if self.draining is not None:
            worker.state = WorkerState.DRAINING if self.draining else WorkerState.ONLINE
        revive(work, worker)
        answer = Beaten(worker)
        for ref in self.stopped:
            self._stop(work, ref)
        if self.tasks is None:
            answer.cancel += [(h.task_id, h.run_id) for h in work.holds.values() if h.worker_id == worker.id]
            for task in runs_of(work, worker.id):
                self._renew(work, task, None, answer)
        else:
            for renewal in self.tasks:
                self._renew_named(work, renewal, answer)
        return answer

    def _worker(self, work: UnitOfWork) -> Worker:
        """Return the worker; a run's credential may renew that run's lease, and nothing else."""
        worker = work.workers.get(self.worker_id)
        if worker is not None and self.principal.scopes is not None and self._is_of_runs(work, worker):
            return worker
        return get_worker(work, self.principal, self.worker_id)

    def _is_of_runs(self, work: UnitOfWork, worker: Worker) -> bool:
        runs = self.tasks or []
        is_more = bool(self.stopped) or self.draining is not None or not runs
        return not is_more and all(
            speaks_for(self.principal, worker, run.task_id, run.run_id) and self._had(work, run) for run in runs
        )

    def _had(self, work: UnitOfWork, ref: RunRef) -> bool:
        """Return whether the run is or was this worker's: a credential must not keep another worker alive."""
        if (task := work.tasks.get(TaskId(ref.task_id))) is None:
            return False
        run = work.resolved.get((task.seq, ref.run_id))
        holder = run.worker_id if run is not None else task.worker_id if task.run_id == ref.run_id else None
        return holder == self.worker_id

    def _stop(self, work: UnitOfWork, ref: RunRef) -> None:
        """End the hold of a run if it was this worker's; other runs are ignored."""
        if (task := work.tasks.get(TaskId(ref.task_id))) is None:
            return
        run = work.resolved.get((task.seq, ref.run_id))
        if run is not None and run.worker_id == self.worker_id:
            work.end_hold(task, ref.run_id)

    def _renew_named(self, work: UnitOfWork, renewal: Renewal, answer: Beaten) -> None:
        task = work.tasks.get(TaskId(renewal.task_id))
        key = (TaskId(renewal.task_id), renewal.run_id)
        if task is not None and task.is_leased and (task.worker_id, task.run_id) == (self.worker_id, renewal.run_id):
            self._renew(work, task, renewal.usage, answer)
        elif task is not None and (hold := self._hold(work, task, renewal.run_id)) is not None:
            # The run has ended but its code still runs: the hold lasts as long as the worker names the run.
            until = max(hold.until, work.now + timedelta(seconds=task.heartbeat_increment))
            renewed = replace(hold, until=until)
            work.renew_hold(renewed)
            answer.cancel.append(key)
            answer.holds.append(renewed)
        else:
            answer.gone.append(key)

    def _hold(self, work: UnitOfWork, task: Task, run_id: int) -> Hold | None:
        hold = work.holds.get((task.seq, run_id))
        return hold if hold is not None and hold.worker_id == self.worker_id else None

    def _renew(self, work: UnitOfWork, task: Task, usage: float | None, answer: Beaten) -> None:
        if task.deadline is not None and task.deadline <= work.now:
            # Past the task's deadline nothing is renewed, even if the sweeper has not found it yet (C11).
            expire_task(work, task)
            answer.cancel.append((task.id, task.run_id))
            return
        work.open(task)
        life.renew(task, work.now, usage)
        if is_over_budget(task):
            take_report(work, task, task.run_id, RunReport(kind="progress", usage=usage))
            answer.cancel.append((task.id, task.run_id))
            return
        if task.cancel_requested:
            answer.pause.append((task.id, task.run_id))
        answer.taken_until.append(lease_of(task))


@dataclass(slots=True, kw_only=True)
class Reattach:
    """Resumes a worker's session with the runs that it still holds; its other unstarted claims are returned."""

    principal: Principal
    worker_id: WorkerId
    held: list[RunRef] = field(default_factory=list)
    home: str | None = None
    """This start of the server: a worker that has moved to another one meanwhile keeps what it has there."""

    @property
    def rows(self) -> int:
        """Return how many tasks it may write."""
        return 1 + len(self.held)

    def reads(self, reads: ReadSet) -> None:
        """Read the worker and what it holds."""
        self._beat().reads(reads)

    def _beat(self) -> Beat:
        renewals = [Renewal(task_id=ref.task_id, run_id=ref.run_id) for ref in self.held]
        return Beat(principal=self.principal, worker_id=self.worker_id, tasks=renewals)

    def apply(self, work: UnitOfWork) -> Beaten:
        """Return what the worker still holds. Raises `WorkerNotFound` or `Forbidden`."""
        answer = self._beat().apply(work)
        if work.workers[self.worker_id].home != self.home:
            return answer
        held = {(TaskId(ref.task_id), ref.run_id) for ref in self.held}
        for task in runs_of(work, self.worker_id):
            if (task.id, task.run_id) not in held and task.started_at is None:
                give_up(work, task)
        for hold in list(work.holds.values()):
            is_its = hold.worker_id == self.worker_id and (hold.task_id, hold.run_id) not in held
            if is_its and hold.is_limited and hold.target_num is None:
                # The run was returned while the worker was away: it never arrived or has stopped, and takes no room.
                work.drop_hold(hold)
        return answer


@dataclass(slots=True, kw_only=True)
class ReturnUnstarted:
    """Returns to the queue what a worker had claimed but not started when its session broke (G8)."""

    principal: Principal
    worker_id: WorkerId
    home: str | None = None
    """The start of the server whose session broke: a worker that is back at another one keeps what it has."""

    rows = 10

    def reads(self, reads: ReadSet) -> None:
        """Read the worker and what it holds."""
        reads.workers.add(self.worker_id)
        reads.tasks_of.add(self.worker_id)

    def apply(self, work: UnitOfWork) -> int:
        """Return how many runs were handed back. One with a target stays until its worker reports or its lease ends."""
        worker = work.workers.get(self.worker_id)
        if worker is not None and worker.home != self.home:
            return 0
        unstarted = [t for t in runs_of(work, self.worker_id) if t.started_at is None and t.target_num is None]
        for task in unstarted:
            take_back(work, task)
        return len(unstarted)

"""Heartbeats: leases are renewed, and the worker learns what it must stop."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import WorkerState
from treadle.wire.workers import Renewal, RunRef
from treadle_server.access.checks import speaks_for
from treadle_server.domain import life
from treadle_server.domain.jobs import Worker
from treadle_server.domain.tasks import Hold, Task
from treadle_server.engine.commands.reports import RunReport, take_report
from treadle_server.engine.commands.steering import expire_task
from treadle_server.engine.commands.workers import check_present, get_worker, revive, runs_of
from treadle_server.engine.needs import Needs
from treadle_server.engine.principal import Principal
from treadle_server.engine.world import World

RunKey = tuple[TaskId, int]


@dataclass(slots=True)
class Beaten:
    """What a heartbeat is answered."""

    worker: Worker
    cancel: list[RunKey] = field(default_factory=list)
    pause: list[RunKey] = field(default_factory=list)
    gone: list[RunKey] = field(default_factory=list)
    taken_until: list[Task] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    """Of runs that are over, whose code still runs: renewed like leases."""


@dataclass(slots=True, kw_only=True)
class Beat:
    """A worker's heartbeat; `tasks` None renews every lease that it holds."""

    principal: Principal
    worker_id: WorkerId
    tasks: list[Renewal] | None = None
    stopped: list[RunRef] = field(default_factory=list)
    draining: bool | None = None
    revives: bool = True
    """Whether a lost worker is back by it: on the socket, whose seat says what it serves."""

    @property
    def rows(self) -> int:
        """Return how many tasks it may write."""
        return 1 + len(self.tasks or ())

    def needs(self, needs: Needs) -> None:
        """Read the worker, what it holds, and what it names."""
        needs.workers.add(self.worker_id)
        needs.tasks_of.add(self.worker_id)
        needs.holds_of.add(self.worker_id)
        for ref in [*(self.tasks or ()), *self.stopped]:
            needs.tasks.add(TaskId(ref.task_id))
            needs.runs.add((TaskId(ref.task_id), ref.run_id))

    def apply(self, world: World) -> Beaten:
        """Renew what is the worker's. Raises `WorkerNotFound` or `Forbidden`."""
        worker = self._worker(world)
        if not self.revives:
            check_present(worker)
        if self.draining is not None:
            worker.state = WorkerState.DRAINING if self.draining else WorkerState.ONLINE
        revive(world, worker)
        answer = Beaten(worker)
        for ref in self.stopped:
            self._stop(world, ref)
        if self.tasks is None:
            answer.cancel += [(h.task_id, h.run_id) for h in world.holds.values() if h.worker_id == worker.id]
            for task in runs_of(world, worker.id):
                self._renew(world, task, None, answer)
        else:
            for renewal in self.tasks:
                self._renew_named(world, renewal, answer)
        return answer

    def _worker(self, world: World) -> Worker:
        """Return the worker; a run's credential may renew that run's lease, and nothing else."""
        worker = world.workers.get(self.worker_id)
        if worker is not None and self.principal.scopes is not None and self._is_of_runs(world, worker):
            return worker
        return get_worker(world, self.principal, self.worker_id)

    def _is_of_runs(self, world: World, worker: Worker) -> bool:
        runs = self.tasks or []
        is_more = bool(self.stopped) or self.draining is not None or not runs
        return not is_more and all(
            speaks_for(self.principal, worker, run.task_id, run.run_id) and self._had(world, run) for run in runs
        )

    def _had(self, world: World, ref: RunRef) -> bool:
        """Return whether the run is or was this worker's: no credential keeps another worker alive."""
        if (task := world.tasks.get(TaskId(ref.task_id))) is None:
            return False
        run = world.resolved.get((task.seq, ref.run_id))
        holder = run.worker_id if run is not None else task.worker_id if task.run_id == ref.run_id else None
        return holder == self.worker_id

    def _stop(self, world: World, ref: RunRef) -> None:
        """End the hold of a run that was this worker's; whatever else is named is not its to end."""
        if (task := world.tasks.get(TaskId(ref.task_id))) is None:
            return
        run = world.resolved.get((task.seq, ref.run_id))
        if run is not None and run.worker_id == self.worker_id:
            world.end_hold(task, ref.run_id)

    def _renew_named(self, world: World, renewal: Renewal, answer: Beaten) -> None:
        task = world.tasks.get(TaskId(renewal.task_id))
        key = (TaskId(renewal.task_id), renewal.run_id)
        if task is not None and task.is_leased and (task.worker_id, task.run_id) == (self.worker_id, renewal.run_id):
            self._renew(world, task, renewal.usage, answer)
        elif task is not None and (hold := self._hold(world, task, renewal.run_id)) is not None:
            # The code still runs though its task is settled: the hold lives as long as it says so.
            until = max(hold.until, world.now + timedelta(seconds=task.heartbeat_increment))
            renewed = replace(hold, until=until)
            world.renew_hold(renewed)
            answer.cancel.append(key)
            answer.holds.append(renewed)
        else:
            answer.gone.append(key)

    def _hold(self, world: World, task: Task, run_id: int) -> Hold | None:
        hold = world.holds.get((task.seq, run_id))
        return hold if hold is not None and hold.worker_id == self.worker_id else None

    def _renew(self, world: World, task: Task, usage: float | None, answer: Beaten) -> None:
        if task.deadline is not None and task.deadline <= world.now:
            # Past its deadline nothing is renewed, even if the sweeper has not been there yet (C11).
            expire_task(world, task)
            answer.cancel.append((task.id, task.run_id))
            return
        world.open(task)
        life.renew(task, world.now, usage)
        if life.is_over_budget(task):
            take_report(world, task, task.run_id, RunReport(kind="progress", usage=usage))
            answer.cancel.append((task.id, task.run_id))
            return
        if task.cancel_requested:
            answer.pause.append((task.id, task.run_id))
        answer.taken_until.append(task)


@dataclass(slots=True, kw_only=True)
class Reattach:
    """A worker opens its session again with the runs it still holds; what else was claimed unstarted is returned."""

    principal: Principal
    worker_id: WorkerId
    held: list[RunRef] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Return how many tasks it may write."""
        return 1 + len(self.held)

    def needs(self, needs: Needs) -> None:
        """Read the worker and what it holds."""
        self._beat().needs(needs)

    def _beat(self) -> Beat:
        renewals = [Renewal(task_id=ref.task_id, run_id=ref.run_id) for ref in self.held]
        return Beat(principal=self.principal, worker_id=self.worker_id, tasks=renewals)

    def apply(self, world: World) -> Beaten:
        """Return what is still the worker's. Raises `WorkerNotFound` or `Forbidden`."""
        answer = self._beat().apply(world)
        held = {(TaskId(ref.task_id), ref.run_id) for ref in self.held}
        for task in runs_of(world, self.worker_id):
            if (task.id, task.run_id) not in held and task.started_at is None:
                take_report(world, task, task.run_id, RunReport(kind="returned"))
        return answer


@dataclass(slots=True, kw_only=True)
class ReturnUnstarted:
    """A session broke and its worker is not back: what was claimed and not started goes back to the queue (G8)."""

    principal: Principal
    worker_id: WorkerId
    home: str | None = None
    """The start of the server whose session broke: a worker that is back at another keeps what it has."""

    rows = 10

    def needs(self, needs: Needs) -> None:
        """Read the worker and what it holds."""
        needs.workers.add(self.worker_id)
        needs.tasks_of.add(self.worker_id)

    def apply(self, world: World) -> int:
        """Return how many runs were handed back. One with a target waits for the worker's word or its lease."""
        returned = 0
        worker = world.workers.get(self.worker_id)
        if worker is not None and self.home is not None and worker.home != self.home:
            return 0
        for task in runs_of(world, self.worker_id):
            if task.started_at is None and task.target_num is None:
                take_report(world, task, task.run_id, RunReport(kind="returned"))
                returned += 1
        return returned

"""What the server does with tasks of `@internal` jobs, whose executors are its own, beyond what workers do."""

from dataclasses import dataclass, field
from datetime import timedelta
from uuid import NAMESPACE_URL, uuid5

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.names import INTERNAL
from treadle.wire.status import Outcome, Reason, Status
from treadle_server.access.principal import Principal
from treadle_server.domain import life
from treadle_server.domain.life import Ending
from treadle_server.domain.retry import backoff_of
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands.base import OneRow
from treadle_server.engine.commands.reports import take_report
from treadle_server.engine.commands.run_report import RunReport
from treadle_server.engine.commands.steering import end_run
from treadle_server.engine.commands.workers import DISCONNECTED
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork

EXECUTORS = Principal(INTERNAL, superuser=True)
"""The owner of the workers that stand for executors; no token's user can have this name."""

BROKER = WorkerId(str(uuid5(NAMESPACE_URL, "treadle:@internal")))
"""The worker that stands for the executors of a broker outside this process; every server uses the same one."""

NOT_DISPATCHED = "Failed to dispatch to internal executor"
"""The error of a task that its broker did not accept."""

STUCK = "Internal worker timeout"
"""The error of a task that its executor had for too long (Z13)."""


@dataclass(slots=True, kw_only=True)
class FailDispatch(OneRow):
    """Fails a task for good whose run could not be dispatched, unless its executor has it all the same."""

    task_id: TaskId
    run_id: int
    cause: str
    """The traceback of the broker's exception; kept with the run."""

    def reads(self, reads: ReadSet) -> None:
        """Read the task."""
        reads.tasks.add(self.task_id)

    def apply(self, work: UnitOfWork) -> bool:
        """Return whether the task was failed; nothing that an executor has reported is overwritten (Z12)."""
        task = work.tasks.get(self.task_id)
        if task is None or task.status is not Status.CLAIMED or task.run_id != self.run_id:
            return False
        work.open(task)
        ending = Ending(Outcome.EXCEPTION, Reason.INTERNAL_ERROR, NOT_DISPATCHED, self.cause)
        end_run(work, task, life.fail(task, ending, work.now, work.draw), None)
        return True


@dataclass(slots=True, kw_only=True)
class TakeOver:
    """Settles what the workers of `@internal` jobs held whose process is gone, and removes these workers.

    Running tasks end as `TREADLE_ON_RESTART` says. Tasks that were not started pass to the successor, in the same run;
    without a successor they go back to the queue.
    """

    gone: list[WorkerId] = field(default_factory=list)
    successor: WorkerId | None = None
    is_dead: bool = True
    """Whether the code is known to have stopped."""

    rows = 100

    def reads(self, reads: ReadSet) -> None:
        """Read the workers with what they hold."""
        for worker_id in self.gone:
            reads.worker(worker_id)
        if self.successor is not None:
            reads.tasks_of.add(self.successor)

    def apply(self, work: UnitOfWork) -> list[Task]:
        """Return the successor's tasks that were not started; they must be dispatched, perhaps again."""
        for task in [task for task in work.tasks.values() if task.is_leased and task.worker_id in self.gone]:
            if task.status is Status.CLAIMED and self.successor is not None:
                self._adopt(work, task, self.successor)
            else:
                lose_internal(work, task, is_dead=self.is_dead)
        for worker in [work.workers[worker_id] for worker_id in self.gone if worker_id in work.workers]:
            work.remove_worker(worker)
        for hold in [hold for hold in work.holds.values() if self.is_dead and hold.worker_id in self.gone]:
            work.drop_hold(hold)
        mine = [task for task in work.tasks.values() if task.worker_id == self.successor]
        return [task for task in mine if task.status is Status.CLAIMED]

    @staticmethod
    def _adopt(work: UnitOfWork, task: Task, successor: WorkerId) -> None:
        work.open(task)
        task.worker_id = successor
        task.version += 1
        task.updated_at = work.now
        work.touched(task)


def lose_internal(work: UnitOfWork, task: Task, *, is_dead: bool) -> None:
    """End a run whose executor's process is gone, as `TREADLE_ON_RESTART` says; a broker's executors live on.

    A run that was not started is handed back. If the executor is not known to be dead, the target stays held.
    """
    if task.worker_id == BROKER:
        return
    if task.status is Status.CLAIMED:
        take_report(work, task, task.run_id, RunReport(kind="returned"))
        return
    if (policy := work.rules.on_restart) == "keep":
        return
    work.open(task)
    until = task.taken_until if task.target_num is not None and not is_dead else None
    delay = backoff_of(task, task.requeue_count, work.draw) if policy == "backoff" else timedelta(0)
    ending = Ending(Outcome.EXCEPTION, Reason.CLAIM_EXPIRED, DISCONNECTED)
    end_run(work, task, life.fail(task, ending, work.now, work.draw, requeue_after=delay), until)

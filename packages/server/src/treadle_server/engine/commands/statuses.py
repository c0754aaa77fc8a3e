"""A plain update of a task's status, as older clients send it: the cancel verb, or a report without a run (Z18)."""

from dataclasses import dataclass

from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle.wire.transitions import TRANSITIONS, Verb
from treadle_server.access.checks import check_control, speaks_for
from treadle_server.access.principal import Principal
from treadle_server.domain import life
from treadle_server.domain.states import advance
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands.base import OneRow, get_task
from treadle_server.engine.commands.reports import take_report
from treadle_server.engine.commands.run_report import RunReport
from treadle_server.engine.commands.steering import cancel_task
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import Forbidden, InvalidTaskTransition, StaleRun

REPORTED = {
    to: verb for verb in (Verb.START, Verb.COMPLETE, Verb.FAIL, Verb.INTERRUPT) for to in TRANSITIONS[verb].targets
}
"""The statuses that a worker may report by an update, each with its verb."""


@dataclass(slots=True, kw_only=True)
class PatchStatus(OneRow):
    """A plain update of a task's status: the cancel verb, or an older client's report without a run (Z18)."""

    principal: Principal
    task_id: TaskId
    status: Status
    run_id: int | None = None
    if_version: int | None = None
    report: RunReport

    def reads(self, reads: ReadSet) -> None:
        """Read the task with its worker."""
        reads.report(self.task_id, self.run_id)
        if self.run_id is None:
            reads.past_owners_of.add(self.task_id)

    def apply(self, work: UnitOfWork) -> Task:
        """Return the task after the update. The same status twice is a 409.

        Raises `TaskNotFound`, `StaleRun`, `InvalidTaskTransition` for a status that no update can set or a task
        without an open run, `Forbidden` for another user's run, `TaskConflict` for another version, and whatever
        `take_report` and `Steer` raise.
        """
        task = get_task(work, self.task_id)
        worker = work.workers.get(task.worker_id) if task.worker_id else None
        owns = speaks_for(self.principal, worker, task.id, task.run_id)
        if self.status is Status.CANCELLED:
            return self._cancel(work, task, owns=owns)
        run_id = self.run_id
        if run_id is None and self.principal.run is not None and self.principal.run[0] == task.id:
            # The credential says which run is meant; older clients, which don't, have none.
            run_id = self.principal.run[1]
        if run_id is not None:
            life.check_owner(task, run_id)
        verb = REPORTED.get(self.status)
        if verb is None:
            raise InvalidTaskTransition(f"a task can't be set to {self.status}; use the verb resume, rerun or pause")
        if not task.is_leased:
            raise InvalidTaskTransition(f"the task is {task.status} and has no open run")
        if not owns:
            self._check_not_lost(work, task)
            raise Forbidden(f"run {task.run_id} belongs to another user's worker")
        life.check_version(task, self.if_version)
        advance(task.status, verb, self.status)
        return take_report(work, task, run_id, self.report)

    def _cancel(self, work: UnitOfWork, task: Task, *, owns: bool) -> Task:
        """Cancel under the rule of the verb: having the task's run, or its credential, gives no right to do so."""
        if self.run_id is not None:
            life.check_owner(task, self.run_id)
        try:
            check_control(self.principal, task)
        except Forbidden:
            if not (owns and task.is_leased):
                self._check_not_lost(work, task, owned=owns)
            raise
        life.check_version(task, self.if_version)
        return cancel_task(work, task)

    def _check_not_lost(self, work: UnitOfWork, task: Task, *, owned: bool = False) -> None:
        """Raise `StaleRun` if the caller's worker had the task, because a 403 would make an older client exit."""
        if self.run_id is None and (owned or self.principal.user in work.past_owners.get(task.seq, ())):
            raise StaleRun("your worker no longer holds the task; stop the code")

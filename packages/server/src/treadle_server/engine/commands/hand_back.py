"""Claims that are given back before they were started, by who has them or because nobody is heard."""

from dataclasses import dataclass

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.runs import runs_without_cost
from treadle.wire.status import Outcome, Reason
from treadle_server.access.principal import Principal
from treadle_server.domain import life
from treadle_server.domain.life import Ending
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands.reports import ReportRun, take_report
from treadle_server.engine.commands.run_report import RunReport
from treadle_server.engine.commands.steering import keep_hold
from treadle_server.engine.commands.workers import DISCONNECTED, lose_run
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import Refused, TreadleError


@dataclass(slots=True, kw_only=True)
class HandBack:
    """Gives back runs that were claimed and not started; costs no budget."""

    principal: Principal
    worker_id: WorkerId
    runs: list[tuple[TaskId, int]]

    @property
    def rows(self) -> int:
        """Return how many tasks it may write."""
        return len(self.runs)

    def reads(self, reads: ReadSet) -> None:
        """Read the tasks."""
        reads.workers.add(self.worker_id)
        for task_id, run_id in self.runs:
            reads.tasks.add(task_id)
            reads.runs.add((task_id, run_id))

    def apply(self, work: UnitOfWork) -> list[TreadleError | None]:
        """Return for each run why it could not be handed back, or None."""
        answers: list[TreadleError | None] = []
        for task_id, run_id in self.runs:
            one = ReportRun(
                principal=self.principal,
                worker_id=self.worker_id,
                task_id=task_id,
                run_id=run_id,
                report=RunReport(kind="returned"),
            )
            try:
                one.apply(work)
            except Refused as refusal:
                answers.append(refusal)
            else:
                answers.append(None)
        return answers


MOST_UNHEARD = 10
"""Runs of a task without any cost after which one that is not heard of is taken for a lost worker's."""


def give_up(work: UnitOfWork, task: Task) -> None:
    """Give back a claim that its worker, which came back, knows nothing of; costs no budget, but for `MOST_UNHEARD`."""
    if _ends_workers(task):
        lose_run(work, task, Reason.CLAIM_EXPIRED, DISCONNECTED, is_over=True)
    else:
        take_report(work, task, task.run_id, RunReport(kind="returned"))


def _ends_workers(task: Task) -> bool:
    """Return whether it went back unheard so often that its code may be what ends its workers.

    They may begin it without a word, and die: then it would go from worker to worker for ever.
    """
    spent = task.retry_count + task.requeue_count + task.steps
    return runs_without_cost(task.run_id, spent=spent) >= MOST_UNHEARD


def take_back(work: UnitOfWork, task: Task) -> None:
    """Give back a claim of whose start nothing was heard, because its worker's session broke; costs as in `give_up`.

    The code may have begun all the same. So what counts against limits holds its room until the worker says that it has
    stopped, or until the lease of the run ends, and its token is spent.
    """
    if _ends_workers(task):
        lose_run(work, task, Reason.CLAIM_EXPIRED, DISCONNECTED)
        return
    report = RunReport(kind="returned")
    if task.limit_key is None:
        take_report(work, task, task.run_id, report)
        return
    work.open(task)
    until = task.taken_until
    run = life.hand_back(task, Ending(Outcome.RETURNED, Reason.RETURNED, digest=report.digest()), work.now)
    work.add_run(task, run, code_ended=not keep_hold(work, task, until, slot_only=True))
    work.changed(task)

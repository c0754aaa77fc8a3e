"""Hands back claims that were not started, by their worker or because it is not heard from."""

from collections.abc import Iterable

from treadle.wire.ids import WorkerId
from treadle.wire.runs import runs_without_cost
from treadle.wire.status import Outcome, Reason
from treadle_server.access.principal import Principal
from treadle_server.domain import life
from treadle_server.domain.life import Ending
from treadle_server.domain.tasks import RunKey, Task
from treadle_server.engine.commands.reports import ReportMany, take_report
from treadle_server.engine.commands.run_report import RunReport
from treadle_server.engine.commands.steering import end_run
from treadle_server.engine.commands.workers import DISCONNECTED, lose_run
from treadle_server.engine.unit_of_work import UnitOfWork


def hand_back(principal: Principal, worker_id: WorkerId, runs: Iterable[RunKey]) -> ReportMany:
    """Return the command that hands back runs that were claimed but not started; this costs no budget."""
    reports = [(*run, RunReport(kind="returned")) for run in runs]
    return ReportMany(principal=principal, worker_id=worker_id, reports=reports)


MOST_UNHEARD = 10
"""After how many runs of a task that cost no budget an unheard one counts as a lost worker's, and costs a requeue."""


def give_up(work: UnitOfWork, task: Task) -> None:
    """Hand back a claim that its worker, which has come back, doesn't know; costs no budget up to `MOST_UNHEARD`."""
    if _may_kill_workers(task):
        lose_run(work, task, Reason.CLAIM_EXPIRED, DISCONNECTED, is_over=True)
    else:
        take_report(work, task, task.run_id, RunReport(kind="returned"))


def _may_kill_workers(task: Task) -> bool:
    """Return whether it went back unheard so often that its code may be what kills its workers.

    A worker may start it and die before it reports that; without a bound it would go from worker to worker for ever.
    """
    spent = task.retry_count + task.requeue_count + task.steps
    return runs_without_cost(task.run_id, spent=spent) >= MOST_UNHEARD


def take_back(work: UnitOfWork, task: Task) -> None:
    """Hand back a claim whose start was not reported when its worker's session broke; costs as in `give_up`.

    The code may have begun all the same. So a task with limits keeps its room in them until the worker says that the
    code has stopped, or the lease of the run ends, and its token is spent.
    """
    if _may_kill_workers(task):
        lose_run(work, task, Reason.CLAIM_EXPIRED, DISCONNECTED)
        return
    report = RunReport(kind="returned")
    if task.limit_key is None:
        take_report(work, task, task.run_id, report)
        return
    work.open(task)
    until = task.taken_until
    ending = Ending(Outcome.RETURNED, Reason.RETURNED, digest=report.digest())
    end_run(work, task, life.hand_back(task, ending, work.now), until)

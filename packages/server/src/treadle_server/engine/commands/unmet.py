"""Counts a task's unmet dependencies when it is to run again, or when its policy for their failure has changed."""

from treadle_server.domain.dependencies import Verdict, verdict
from treadle_server.domain.tasks import Task
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.transaction.dependencies import EdgeStatus


def count_unmet(work: UnitOfWork, task: Task) -> EdgeStatus | None:
    """Count the task's unmet dependencies again, since these may run again too; the task must be open for a change.

    Return a dependency because of which it must never run by its policy, or None if there is none.
    """
    known = work.dependencies
    if task.unmet is None:
        return None
    task.unmet = 0
    failed: EdgeStatus | None = None
    for edge in known.edges_of(task.seq):
        other = work.tasks.get(edge.needs_id)
        status = edge.status if other is None else other.status
        decision = verdict(task.on_dependency_failure, status)
        is_met = decision is Verdict.MET
        key = (task.seq, edge.needs_seq)
        if is_met is not known.met.get(key, edge.met):
            known.met[key] = is_met
        task.unmet += not is_met
        if decision is Verdict.FAILED and failed is None:
            failed = edge._replace(status=status)
    return failed

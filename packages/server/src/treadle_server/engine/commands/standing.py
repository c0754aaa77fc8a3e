"""Where a task stands that waits for others, when it is to run again, or is to think otherwise of their failures."""

from treadle_server.domain.dependencies import Verdict, verdict
from treadle_server.domain.tasks import Task
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.transaction.dependencies import EdgeStatus


def look_again(work: UnitOfWork, task: Task) -> EdgeStatus | None:
    """Count anew what the task, which is open for a change, waits for: what it needed may run again too.

    Return one of those because of which it is never to run, as its policy says, if there is one.
    """
    known = work.dependencies
    if task.unmet is None:
        return None
    task.unmet = 0
    failed: EdgeStatus | None = None
    for stand in known.stands_of(task.seq):
        other = work.tasks.get(stand.needs_id)
        status = stand.status if other is None else other.status
        said = verdict(task.on_dependency_failure, status)
        is_met = said is Verdict.MET
        key = (task.seq, stand.needs_seq)
        if is_met is not known.met.get(key, stand.met):
            known.met[key] = is_met
        task.unmet += not is_met
        if said is Verdict.FAILED and failed is None:
            failed = stand._replace(status=status)
    return failed

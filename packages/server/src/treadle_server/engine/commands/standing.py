"""Where a task stands that waits for others, when it is to run again."""

from treadle_server.domain.dependencies import Verdict, verdict
from treadle_server.domain.tasks import Task
from treadle_server.engine.unit_of_work import UnitOfWork


def look_again(work: UnitOfWork, task: Task) -> None:
    """Count anew what the task, which is open for a change, waits for: what it needed may run again too."""
    if task.unmet is None:
        return
    known = work.dependencies
    task.unmet = 0
    for stand in known.stands[task.seq]:
        other = work.tasks.get(stand.needs_id)
        status = stand.status if other is None else other.status
        is_met = verdict(task.on_dependency_failure, status) is Verdict.MET
        key = (task.seq, stand.needs_seq)
        if is_met is not known.met.get(key, stand.met):
            known.met[key] = is_met
        task.unmet += not is_met

"""The run with which a task completed, which the task itself holds until it runs again. Pure functions.

Nearly every task completes in its first run, and the task already has everything about that run: when it was claimed,
started and ended, by which worker, and its usage. A record of the run would be one more row for every task; so there is
one only once the task is run again, or if the task can't represent the run exactly.
"""

from treadle.wire.status import Outcome
from treadle_server.domain.tasks import Run, Task
from treadle_server.domain.usage import usage_of_run


def last_run(task: Task) -> Run | None:
    """Return the run with which the task completed, if the task holds it."""
    if task.digest is None:
        return None
    assert task.claimed_at is not None
    assert task.completed_at is not None
    return Run(
        task_seq=task.seq,
        run_id=task.run_id,
        status=Outcome.COMPLETED,
        reason=None,
        error=None,
        traceback=None,
        worker_id=task.worker_id,
        usage=usage_of_run(task),
        claimed_at=task.claimed_at,
        started_at=task.started_at,
        ended_at=task.completed_at,
        digest=task.digest,
    )


def keep_last_run(task: Task, run: Run) -> None:
    """Let the task hold the run with which it has completed, unless the task can't represent that run exactly.

    It can't if there is an error beside the result, or a usage that is not the difference of the task's own numbers.
    """
    if run.error is None and run.traceback is None and run.usage == usage_of_run(task):
        task.digest = run.digest

"""The run with which a task completed: the task itself tells it, until it is run again. Pure functions.

Nearly every task completes at its first run, and all that is to be known of that run stands in the task already: when
it was claimed, started and ended, by which worker, and what it used. A record of its own would be one more row for
every task; so it gets one only when the task leaves its end, or when the task could not tell the run exactly.
"""

from treadle.wire.status import Outcome
from treadle_server.domain.tasks import Run, Task
from treadle_server.domain.usage import usage_of_run


def last_run(task: Task) -> Run | None:
    """Return the run with which the task completed, if the task keeps it."""
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
    """Let the task keep the run with which it has completed, unless there is more to that run than the task can tell.

    That is an error beside a result, or a usage that is not exactly the difference of the task's own numbers.
    """
    if run.error is None and run.traceback is None and run.usage == usage_of_run(task):
        task.digest = run.digest

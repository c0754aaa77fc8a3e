"""Lets a new task join those that wait for its limits, or supersede older ones where the limits say so."""

from collections.abc import Sequence

from treadle.wire.status import Reason, Status
from treadle_server.domain.limits import Named
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands.steering import cancel_task
from treadle_server.engine.unit_of_work import UnitOfWork


def crowd_in(work: UnitOfWork, new: Task, named: Sequence[Named]) -> None:
    """Count a new task among those that wait for its limits, and cancel the tasks that it supersedes there.

    A running task that is superseded keeps its hold until its code has stopped. A new task that is not due yet, or
    waits for other tasks, does nothing here.
    """
    if new.status is not Status.PENDING:
        return
    work.admission.add(named)
    for one in named:
        rivals = work.rivals.get(one.bucket_id.bucket)
        for task in () if rivals is None else rivals.superseded_by(new):
            cancel_task(work, task, Reason.SUPERSEDED)
            task.error = f"task {new.id} superseded it: the limit {one.name!r} of room {one.room} was full"

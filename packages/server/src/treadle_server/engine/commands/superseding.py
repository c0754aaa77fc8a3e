"""A new task joins those that wait for its limits, or takes the place of older ones, where these say so."""

from collections.abc import Sequence

from treadle.wire.status import Reason, Status
from treadle_server.domain.limits import Named
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands.steering import cancel_task
from treadle_server.engine.unit_of_work import UnitOfWork


def crowd_in(work: UnitOfWork, new: Task, named: Sequence[Named]) -> None:
    """Count a task that was just put in among those that wait for its limits, and cancel what it supersedes there.

    What runs keeps its holds until its code has stopped. What is not due yet, or waits for other tasks, does neither.
    """
    if new.status is not Status.PENDING:
        return
    work.admission.add(named)
    for one in named:
        rivals = work.rivals.get(one.bucket_id.bucket)
        for task in () if rivals is None else rivals.superseded_by(new):
            cancel_task(work, task, Reason.SUPERSEDED)
            task.error = f"task {new.id} superseded it: the limit {one.name!r} of room {one.room} was full"

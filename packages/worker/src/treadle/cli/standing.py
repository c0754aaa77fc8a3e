"""What keeps a task from going on by itself, and who may let it."""

from typing import TYPE_CHECKING

from treadle.cli.show import because, spelt, told
from treadle.errors import JobNotFound
from treadle.wire.names import INTERNAL
from treadle.wire.status import Reason, Status

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.jobs import JobItem
    from treadle.wire.steps import StepItem
    from treadle.wire.tasks import TaskItem


async def kept_by(client: "Client", task: "TaskItem", steps: "list[StepItem] | None" = None) -> str | None:
    """Return what keeps a task, as it was read, and what lets it go on; None where nothing does, that is known.

    `steps` are those that it keeps, for who has read them. Raises as `Client.steps`, and ConnectionFailed.
    """
    if task.status is Status.PAUSED:
        why = f": {told(task.error)}" if task.error else ""
        return f"is {because(task.reason, task.status)}{why}; `treadle resume {task.id}` lets it go on"
    if task.status is Status.SCHEDULED and task.reason is Reason.SUSPENDED:
        return _message(await client.steps(task.id) if steps is None else steps)
    if task.status is Status.PENDING and not task.blocked_by and not task.job_name.startswith(f"{INTERNAL}:"):
        return await _nobody(client, task)
    return None


def _message(steps: "list[StepItem]") -> str | None:
    for last in steps[-1:]:
        if last.kind == "receive" and last.received_at is None:
            return f"waits for the message {last.step!r}, which `treadle send` sends"
    return None


async def _nobody(client: "Client", task: "TaskItem") -> str | None:
    """Return that nobody takes tasks of its queue, or it alone."""
    try:
        job = await client.job(task.job_name)
    except JobNotFound:  # who sees a task need not see its queue
        return None
    if job.paused:
        return f"waits in a paused queue; `treadle resume --queue {task.job_name}` lets it go on"
    if not job.slots:
        return f"waits for a worker, and none serves {task.job_name}; `treadle worker MODULE` starts one"
    return await _unfit(client, task, job) if task.pool is not None or task.weight > 1 else None


async def _unfit(client: "Client", task: "TaskItem", job: "JobItem") -> str | None:
    """Return that none of the workers of its queue is of its pool, or large enough for it."""
    serving = [worker async for worker in client.workers() if worker.id in job.workers]
    if len(serving) < len(job.workers):  # who does not see all of them can't tell
        return None
    fit = [worker for worker in serving if task.pool in {None, worker.pool}]
    starts = f"`treadle worker MODULE{'' if task.pool is None else f' --pool {spelt(task.pool)}'}"
    if not fit:
        return f"waits for a worker of its pool, and none serves {task.job_name}; {starts}` starts one"
    most = max(worker.concurrency for worker in fit)
    if most == 1 or task.weight <= most:  # one over HTTP that named no concurrency is said to have 1, and takes any
        return None
    why = f"waits for a worker that takes its weight of {task.weight}, and the largest takes {most}"
    return f"{why}; {starts} --concurrency {task.weight}` starts one"

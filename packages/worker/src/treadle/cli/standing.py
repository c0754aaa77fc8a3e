"""What keeps a task from going on by itself, and how to let it go on."""

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


async def blocking_reason(client: "Client", task: "TaskItem", steps: "list[StepItem] | None" = None) -> str | None:
    """Return what keeps a task, as it was read, from going on, and what lets it; None if nothing known does.

    `steps` are those that it has kept, if they were read already. Raises `ConnectionFailed`, and as `Client.steps`
    does.
    """
    if task.status is Status.PAUSED:
        why = f": {told(task.error)}" if task.error else ""
        return f"is {because(task.reason, task.status)}{why}; `treadle resume {task.id}` lets it continue"
    if task.status is Status.SCHEDULED and task.reason is Reason.SUSPENDED:
        return _message(await client.steps(task.id) if steps is None else steps)
    if task.status is Status.PENDING and not task.blocked_by and not task.job_name.startswith(f"{INTERNAL}:"):
        return await _nobody(client, task)
    return None


def _message(steps: "list[StepItem]") -> str | None:
    for last in steps[-1:]:
        if last.kind == "receive" and last.received_at is None:
            return f"waits for the message {last.step!r}; send it with `treadle send`"
    return None


async def _nobody(client: "Client", task: "TaskItem") -> str | None:
    """Return why no worker takes tasks of the task's queue, or takes this task."""
    try:
        job = await client.job(task.job_name)
    except JobNotFound:  # a task may be visible while its queue is not
        return None
    if job.paused:
        return f"waits in a paused queue; `treadle resume --queue {task.job_name}` lets it continue"
    if not job.slots:
        return f"waits for a worker, but none serves {task.job_name}; `treadle worker MODULE` starts one"
    return await _unfit(client, task, job) if task.pool is not None or task.weight > 1 else None


async def _unfit(client: "Client", task: "TaskItem", job: "JobItem") -> str | None:
    """Return that no worker of the task's queue is of its pool, or large enough for it."""
    serving = [worker async for worker in client.workers() if worker.id in job.workers]
    if len(serving) < len(job.workers):  # not all of them are visible, so this can't be told
        return None
    fit = [worker for worker in serving if task.pool in {None, worker.pool}]
    starts = f"`treadle worker MODULE{'' if task.pool is None else f' --pool {spelt(task.pool)}'}"
    if not fit:
        return f"waits for a worker of its pool, but none serves {task.job_name}; {starts}` starts one"
    most = max(worker.concurrency for worker in fit)
    if most == 1 or task.weight <= most:  # over HTTP a worker that gave no concurrency is shown with 1, and takes any
        return None
    why = f"waits for a worker that can take its weight of {task.weight}, but the largest takes {most}"
    return f"{why}; {starts} --concurrency {task.weight}` starts one"

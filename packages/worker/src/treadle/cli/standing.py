"""What keeps a task from going on by itself, and who may let it."""

from typing import TYPE_CHECKING

from treadle.cli.show import because, told
from treadle.wire.names import INTERNAL
from treadle.wire.status import Reason, Status

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.tasks import TaskItem


async def kept_by(client: "Client", task: "TaskItem") -> str | None:
    """Return what keeps a task, as it was read, and what lets it go on; None where nothing does, that is known.

    Raises as `Client.steps`, and ConnectionFailed.
    """
    if task.status is Status.PAUSED:
        why = f": {told(task.error)}" if task.error else ""
        return f"is {because(task.reason, task.status)}{why}; `treadle resume {task.id}` lets it go on"
    if task.status is Status.SCHEDULED and task.reason is Reason.SUSPENDED:
        return await _message(client, task)
    if task.status is Status.PENDING and not task.blocked_by and not task.job_name.startswith(f"{INTERNAL}:"):
        return await _nobody(client, task)
    return None


async def _message(client: "Client", task: "TaskItem") -> str | None:
    for last in (await client.steps(task.id))[-1:]:
        if last.kind == "receive" and last.received_at is None:
            return f"waits for the message {last.step!r}, which `treadle send` sends"
    return None


async def _nobody(client: "Client", task: "TaskItem") -> str | None:
    """Return that nobody takes tasks of its queue."""
    from treadle.errors import JobNotFound

    try:
        job = await client.job(task.job_name)
    except JobNotFound:  # who sees a task need not see its queue
        return None
    if job.paused:
        return f"waits in a paused queue; `treadle resume --queue {task.job_name}` lets it go on"
    if not job.slots:
        return f"waits for a worker, and none serves {task.job_name}; `treadle worker MODULE` starts one"
    return None

"""Estimates when a pending task starts, from its queue position, the queue's recent pace and its runs."""

from datetime import UTC, datetime

from treadle.wire.jobs import JobItem
from treadle.wire.status import Status
from treadle.wire.tasks import TaskItem

LIMIT = "limit:"
"""The prefix of limits in `TaskItem.blocked_by`."""


def seconds_to_start(task: TaskItem, job: JobItem, now: datetime | None = None) -> float | None:
    """Estimate in how many seconds the task starts: its position divided by the queue's starts per second.

    It is at least the time that the queue's slots need, by the mean of its runs, because the pace may be that of
    workers that are gone. A task that waits for a limit starts as the limit's rate allows; `now` is the server's time,
    by default this machine's. None if it can't be estimated: the task is not pending, has no position yet, or waits for
    a target or for room in a limit; the queue is paused or has no live worker; or nothing of the queue (for a fair job:
    of the room) has started in the last five minutes.
    """
    if task.status is not Status.PENDING or task.queue_position is None:
        return None
    if job.paused or not job.slots:
        return None
    if task.blocked_by:
        return seconds_to_limit(task, now or datetime.now(UTC))
    if job.stats is None:
        return None
    by_room = job.stats.starts_by_room
    pace = job.stats.starts_per_second if by_room is None else by_room.get(task.room_id)
    if not pace:
        return None
    rounds = (task.queue_position - 1) // job.slots
    return max(task.queue_position / pace, rounds * (job.stats.run.mean or 0.0))


def seconds_to_limit(task: TaskItem, now: datetime) -> float | None:
    """Return in how many seconds the rate of its limit lets a task start, if nothing else blocks it.

    None if that is unknown, or if a target blocks it too.
    """
    if task.limit_opens_at is None or not all(one.startswith(LIMIT) for one in task.blocked_by or ()):
        return None
    return max(0.0, (task.limit_opens_at - now).total_seconds())

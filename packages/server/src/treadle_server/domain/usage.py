"""What a task has used, over all of its runs, and of what it may use: pure functions."""

from treadle_server.domain.tasks import Task


def note_usage(task: Task, usage: float | None) -> None:
    """Note what the open run has used: the task's usage is the sum over all of its runs. None says nothing of it."""
    task.usage = total_usage(task, usage)


def total_usage(task: Task, usage: float | None) -> float | None:
    """Return what the task has used in all when its open run has used so much; None: as far as it was told."""
    return task.usage if usage is None else (task.usage_before or 0.0) + usage


def usage_of_run(task: Task) -> float | None:
    """Return what the open run has used, as far as it was told."""
    if task.usage is None or task.usage_before is None:
        return task.usage
    return task.usage - task.usage_before if task.usage > task.usage_before else None


def is_over_budget(task: Task, usage: float | None = None) -> bool:
    """Return whether the task has used more than it may, when its open run has used `usage`."""
    total = total_usage(task, usage)
    return task.budget is not None and total is not None and total > task.budget

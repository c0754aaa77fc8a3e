"""A task's usage over all of its runs, and its budget. Pure functions."""

from treadle_server.domain.tasks import Task


def note_usage(task: Task, usage: float | None) -> None:
    """Note the open run's usage; the task's is the sum over all of its runs. None changes nothing."""
    task.usage = total_usage(task, usage)


def total_usage(task: Task, usage: float | None) -> float | None:
    """Return the task's total usage if its open run has used `usage`, or what is known so far if that is None."""
    return task.usage if usage is None else (task.usage_before or 0.0) + usage


def usage_of_run(task: Task) -> float | None:
    """Return the open run's usage, as far as it was reported."""
    if task.usage is None or task.usage_before is None:
        return task.usage
    return task.usage - task.usage_before if task.usage > task.usage_before else None


def is_over_budget(task: Task, usage: float | None = None) -> bool:
    """Return whether the task exceeds its budget if its open run has used `usage`."""
    total = total_usage(task, usage)
    return task.budget is not None and total is not None and total > task.budget

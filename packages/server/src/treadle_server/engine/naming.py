"""The limits that new and edited tasks count against: looked up, checked, and noted in the task."""

from collections.abc import Mapping, Sequence
from typing import Any

from treadle_server.domain.jobs import Job
from treadle_server.domain.limits import Named, check_named, key_of, named_by, text_of
from treadle_server.domain.tasks import Task
from treadle_server.engine.unit_of_work import UnitOfWork

Given = Sequence[Mapping[str, Any]]
"""Limits as a submit or a registration names them: name, key, weight."""


def limits_of(work: UnitOfWork, job: Job, room: str, own: Given | None, payload: str) -> list[Named]:
    """Return what a task of the job counts against, in the order of the buckets.

    Raises `LimitNotFound`, and `ValidationFailed` for a weight that never fits, a key that is none, or too many.
    """
    of_job = work.rules.limits_of(job)
    if not of_job and not own:
        return []
    named = named_by(job.room, of_job, room, own or (), payload)
    check_named(named, work.limits)
    return named


def note_limits(task: Task, named: Sequence[Named], own: Given | None) -> None:
    """Note in a task what it counts against, and what of that it names itself."""
    was_parked = task.parked
    task.limits = text_of(named, own or ()) if named else None
    task.limit_key = key_of(named) if named else None
    if task.limit_key is None and was_parked:
        # Nothing but its limits kept it: its target, if it has one, decides anew.
        task.blocked, task.parked = task.target_num is not None, False

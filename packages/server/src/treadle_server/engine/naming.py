"""The limits that new and edited tasks count against: looked up, checked, asked for room, and noted in the task."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from treadle_server.domain.admission import Wanted
from treadle_server.domain.jobs import Job
from treadle_server.domain.limits import Named, check_named, key_of, named_by, text_of, weights_of
from treadle_server.domain.tasks import Task
from treadle_server.engine.unit_of_work import UnitOfWork

Given = Sequence[Mapping[str, Any]]
"""Limits as a submit or a registration names them: name, key, weight."""


def limits_of(
    work: UnitOfWork, job: Job, room: str, own: Given | None, payload: str, *, task: Task | None = None
) -> list[Named]:
    """Return what a task of the job counts against, in the order of the buckets.

    What a `task` that is edited counts against already is not looked at again. Raises `LimitNotFound`, and
    `ValidationFailed` for a weight that never fits, a key that is none, or too many.
    """
    of_job = work.rules.limits_of(job)
    if not of_job and not own:
        return []
    named = named_by(job.room, of_job, room, own or (), payload)
    if task is None or not _is_as_before(task, named):
        check_named(named, work.limits)
    return named


def _is_as_before(task: Task, named: Sequence[Named]) -> bool:
    if task.limits is None or not named or key_of(named) != task.limit_key:
        return False
    return weights_of(task.limits) == tuple(one.weight for one in named)


def note_limits(task: Task, named: Sequence[Named], own: Given | None) -> None:
    """Note in a task what it counts against, and what of that it names itself."""
    task.limits = text_of(named, task.room, own or ()) if named else None
    task.limit_key = key_of(named) if named else None
    if task.limit_key is None:
        # Nothing but its target, if it has one, keeps it from now on: where it is kept, that decides anew.
        task.blocked, task.parked = task.blocked and task.target_num is not None, False


def admit(work: UnitOfWork, wanted: Iterable[Wanted]) -> None:
    """Raise `LimitFull` unless the limits that reject have room for all of these.

    What the batch has ended since is no use of theirs any more; else nothing is changed.
    """
    by_seq = {task.seq: task for task in work.tasks.values()} if work.own_uses else {}
    left: list[tuple[int, int, int, int]] = []
    for seq, run_id, bucket, weight in work.own_uses:
        if by_seq[seq].completed_at is None or (seq, run_id) in work.holds:
            left.append((seq, run_id, bucket, weight))
        elif (crowd := work.admission.crowds.get(bucket)) is not None:
            crowd.bucket.used -= weight
    work.own_uses = left
    work.admission.check(wanted)

"""The limits that new and edited tasks count against: found, checked, asked for room, and recorded in the task."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from treadle_server.domain.admission import Wanted
from treadle_server.domain.jobs import Job
from treadle_server.domain.limits import Named, check_named, key_of, named_by, text_of, weights_of
from treadle_server.domain.tasks import Task
from treadle_server.engine.unit_of_work import UnitOfWork

Given = Sequence[Mapping[str, Any]]
"""Limits as a submit or a registration names them: each with name, key and weight."""


def limits_of(
    work: UnitOfWork, job: Job, room: str, own: Given | None, payload: str, *, task: Task | None = None
) -> list[Named]:
    """Return the limits that a task of the job counts against, in the order of their buckets.

    Limits that an edited `task` already counts against are not checked again. Raises `LimitNotFound`, and
    `ValidationFailed` for a weight that can never fit, an invalid key, or too many limits.
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
    """Record in a task which limits it counts against, and which of them it names itself."""
    task.limits = text_of(named, task.room, own or ()) if named else None
    task.limit_key = key_of(named) if named else None
    if task.limit_key is None:
        # From now on only its target, if it has one, can block it; that is decided when the batch is written.
        task.blocked, task.parked = task.blocked and task.target_num is not None, False


def admit(work: UnitOfWork, wanted: Iterable[Wanted]) -> None:
    """Raise `LimitFull` unless the limits that reject have room for all of these.

    First the use of runs that this batch has ended is subtracted; nothing else is changed.
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

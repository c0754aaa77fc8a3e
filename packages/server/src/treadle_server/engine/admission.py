"""Limits that reject: what is known of them is read before tasks are put in, and looked at again before the commit.

Commands decide by what was read without a lock, so that a submit waits for nobody. Servers that share a database look
again under the lock of the limits: who was overtaken does its batch anew.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from treadle_server.domain.admission import Admission
from treadle_server.domain.jobs import Job
from treadle_server.domain.limits import BucketId, Named, named_by
from treadle_server.engine.commands.instances import options_of
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import ValidationFailed
from treadle_server.store.base import Overtaken
from treadle_server.store.transaction.limit_rows import read_buckets, take_turn
from treadle_server.store.transaction.limit_waits import crowds_of, uses_of


async def read_admission(work: UnitOfWork, reads: ReadSet) -> None:
    """Read what is used and waits of the limits that reject and that tasks of the batch may be put in for."""
    if all(limit.on_full != "reject" for limit in work.limits.values()):
        return
    bucket_ids = {one.bucket_id for one in named_by_new(work, reads) if _rejects(work, one)}
    if not bucket_ids:
        return
    buckets = await read_buckets(work.tx, bucket_ids, work.now)
    work.admission = Admission(await crowds_of(work.tx, bucket_ids, buckets))
    if work.schedules:
        # A schedule's next task is put in by the batch that ends the last one.
        work.own_uses = await uses_of(work.tx, {task.seq for task in work.tasks.values() if task.limit_key is not None})


async def confirm_admission(work: UnitOfWork) -> None:
    """Look again, under the lock of the limits, where another server may have put something in meanwhile.

    Raises `Overtaken` when together they are beyond a limit.
    """
    grown = work.admission.grown
    if not grown or work.tx.is_exclusive:
        return
    await take_turn(work.tx)
    bucket_ids = {BucketId(work.admission.crowds[bucket].bucket.limit.num, bucket) for bucket in grown}
    now = await crowds_of(work.tx, bucket_ids, await read_buckets(work.tx, bucket_ids, work.now))
    if any(work.admission.is_passed(bucket, crowd) for bucket, crowd in now.items()):
        raise Overtaken("a limit that rejects was filled by another server")


def _new_tasks(work: UnitOfWork, reads: ReadSet) -> Iterator[tuple[Job, str, Sequence[Any], str]]:
    """Return the job, room, limits of its own and payload of each task that may be put in."""
    for name, room, own, payload in reads.submits:
        if name in work.jobs:
            yield work.jobs[name], room, own or [], payload
    for schedule in work.schedules.values():
        of_task = options_of(schedule).get("limits") or ()
        yield work.jobs_by_num[schedule.job_num], schedule.room, of_task, schedule.payload


def named_by_new(work: UnitOfWork, reads: ReadSet) -> Iterator[Named]:
    """Yield the limits that the tasks count against which the batch may put in."""
    for job, room, own, payload in _new_tasks(work, reads):
        try:
            yield from named_by(job.room, work.rules.limits_of(job), room, own, payload)
        except ValidationFailed:
            continue  # its command says so


def _rejects(work: UnitOfWork, one: Named) -> bool:
    limit = work.limits.get((one.room, one.name))
    return limit is not None and limit.on_full == "reject"

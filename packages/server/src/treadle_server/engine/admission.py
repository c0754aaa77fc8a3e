"""Limits that reject: their state is read before tasks are added, and checked again before the commit.

Commands decide by what was read without a lock, so that no submit waits for another. Servers that share a database
check again under the lock of the limits: one that was overtaken applies its batch again.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from treadle.wire.limits import OnFull
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
    """Read the use and the waiting tasks of the rejecting limits that the batch's new tasks may count against."""
    bucket_ids = {one.bucket_id for one in named_by_new(work, reads, {"reject"})}
    if not bucket_ids:
        return
    buckets = await read_buckets(work.tx, bucket_ids, work.now)
    work.admission = Admission(await crowds_of(work.tx, bucket_ids, buckets))
    if work.schedules:
        # The batch that ends a schedule's task may add the next one, so the use of the ended one must not count.
        work.own_uses = await uses_of(work.tx, {task.seq for task in work.tasks.values() if task.limit_key is not None})


async def confirm_admission(work: UnitOfWork) -> None:
    """Check again, under the lock of the limits, where another server may have added tasks meanwhile.

    Raises `Overtaken` if the tasks of both exceed a limit.
    """
    grown = work.admission.grown
    if not grown or work.tx.is_exclusive:
        return
    await take_turn(work.tx)
    bucket_ids = {BucketId(work.admission.crowds[bucket].bucket.limit.num, bucket) for bucket in grown}
    now = await crowds_of(work.tx, bucket_ids, await read_buckets(work.tx, bucket_ids, work.now))
    if any(work.admission.is_passed(bucket, crowd) for bucket, crowd in now.items()):
        raise Overtaken("another server filled a limit that rejects")


def _new_tasks(work: UnitOfWork, reads: ReadSet) -> Iterator[tuple[Job, str, Sequence[Any], str]]:
    """Yield the job, room, own limits and payload of each task that the batch may add."""
    for name, room, own, payload in reads.submits:
        if name in work.jobs:
            yield work.jobs[name], room, own or [], payload
    for schedule in work.schedules.values():
        of_task = options_of(schedule).get("limits") or ()
        yield work.jobs_by_num[schedule.job_num], schedule.room, of_task, schedule.payload


def named_by_new(work: UnitOfWork, reads: ReadSet, on_full: Collection[OnFull]) -> Iterator[Named]:
    """Yield the limits with one of these `on_full` that the batch's new tasks may count against."""
    meant = {name for name, limit in work.limits.items() if limit.on_full in on_full}
    for job, room, own, payload in _new_tasks(work, reads) if meant else ():
        try:
            named = named_by(job.room, work.rules.limits_of(job), room, own, payload)
        except ValidationFailed:
            continue  # its command raises this error
        yield from (one for one in named if (one.room, one.name) in meant)

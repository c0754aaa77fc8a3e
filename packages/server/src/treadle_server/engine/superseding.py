"""Limits that let newer tasks supersede older ones: the rivals are read before tasks are added, and confirmed after.

Servers that share a database check again, under the lock of the limits, for tasks that they did not know of: one that
was overtaken applies its batch again.
"""

from collections import Counter
from collections.abc import Iterable

from treadle_server.domain.limits import BucketId
from treadle_server.domain.superseding import SUPERSEDING, Rivals, Running
from treadle_server.engine.admission import named_by_new
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.base import Overtaken
from treadle_server.store.transaction.limit_rows import read_buckets, take_turn
from treadle_server.store.transaction.limit_waits import RunOf, crowds_of, running_in, waiting_in
from treadle_server.store.transaction.load import tasks_by_id

MOST = 500
"""How many tasks of a bucket one batch supersedes at most; the rest go when the next task is submitted."""


async def read_rivals(work: UnitOfWork, reads: ReadSet) -> None:
    """Read the waiting and running tasks that the batch's new tasks may supersede, where a limit says so."""
    coming: Counter[BucketId] = Counter()
    for one in named_by_new(work, reads, SUPERSEDING):
        coming[one.bucket_id] += one.weight
    if not coming:
        return
    waiting = await waiting_in(work.tx, coming, MOST)
    running = await running_in(work.tx, _replacing(work, coming))
    # The use is read last: tasks that came after the others were read make it full, and `confirm_rivals` finds them.
    buckets = await read_buckets(work.tx, coming, work.now)
    rivals = {number: Rivals(number, bucket) for number, bucket in buckets.items()}
    going = {
        bucket_id.bucket: _first(running[bucket_id.bucket], rivals[bucket_id.bucket], weight)
        for bucket_id, weight in coming.items()
        if bucket_id.bucket in running
    }
    ids = {task_id for found in waiting.values() for task_id in found}
    ids |= {task_id for runs in going.values() for task_id, _, _ in runs}
    work.remember(await tasks_by_id(work.tx, ids - work.tasks.keys()))
    for number, rival in rivals.items():
        rival.waiting = [work.tasks[task_id] for task_id in waiting[number] if task_id in work.tasks]
        runs = [run for run in going.get(number, ()) if run[0] in work.tasks]
        rival.running = [Running(work.tasks[task_id], run_id, weight) for task_id, run_id, weight in runs]
        rival.active = sum(weight for _, _, weight in running.get(number, ()))
        rival.known_waiting = set(waiting[number])
        rival.known_running = {task_id for task_id, _, _ in running.get(number, ())}
        rival.is_capped = len(ids) >= MOST
    work.rivals = rivals


def _replacing(work: UnitOfWork, bucket_ids: Iterable[BucketId]) -> list[int]:
    nums = {limit.num for limit in work.limits.values() if limit.on_full == "replace"}
    return [bucket_id.bucket for bucket_id in bucket_ids if bucket_id.num in nums]


def _first(runs: list[RunOf], rivals: Rivals, coming: int) -> list[RunOf]:
    """Return the runs that may have to go so that the new tasks fit."""
    most = rivals.bucket.limit.concurrency
    excess = 0 if most is None else sum(weight for _, _, weight in runs) + coming - most
    found: list[RunOf] = []
    for run in runs[:MOST]:
        if excess <= 0:
            break
        excess -= run[2]
        found.append(run)
    return found


async def confirm_rivals(work: UnitOfWork) -> None:
    """Check again, under the lock of the limits, where another server may have added tasks meanwhile.

    Raises `Overtaken` if a task waits or runs that this batch should have superseded.
    """
    grown = {number: one for number, one in work.rivals.items() if one.has_grown and not one.is_capped}
    if not grown or work.tx.is_exclusive:
        return
    await take_turn(work.tx)
    bucket_ids = {BucketId(one.bucket.limit.num, number) for number, one in grown.items()}
    crowds = await crowds_of(work.tx, bucket_ids, await read_buckets(work.tx, bucket_ids, work.now))
    waiting = await waiting_in(work.tx, bucket_ids, MOST)
    running = await running_in(work.tx, _replacing(work, bucket_ids))
    for number, one in grown.items():
        unknown = set(waiting[number]) - one.known_waiting - {task.id for task in one.waiting}
        unknown |= {task_id for task_id, _, _ in running.get(number, ())} - one.known_running
        if unknown and number in crowds and crowds[number].excess() is not None:
            raise Overtaken("another server has submitted a task to be superseded")

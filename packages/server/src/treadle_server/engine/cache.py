"""What the writer remembers of the database between its transactions, so that plain submits read nothing.

SQLite has a number that shows whether another connection has written: as long as it stays the same, everything that
this writer knew after its last commit is still true. On PostgreSQL there is such a number while this server is the
exclusive writer (`store/postgres/exclusive.py`); when there are others, nothing is remembered.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from treadle.wire.names import InvalidJobName, parse_job_name
from treadle_server.domain.jobs import MOST_TEXT, Job, Lane
from treadle_server.domain.lately_used import LatelyUsed
from treadle_server.store.base import Tx
from treadle_server.store.transaction import load
from treadle_server.store.transaction.allocate import coming_seqs
from treadle_server.store.transaction.counts import CountKey, Queue, queue_counts
from treadle_server.store.transaction.targets import TargetName, number_targets

MOST_JOBS = 10_000
"""How many jobs are remembered at most."""

MOST_LANES = 20_000
"""How many lanes are remembered, of which a fair job has one for each room; beyond that all are forgotten."""

MOST_OF_QUEUE = 1_000
"""How many lanes, one for each pool, a queue may have to be remembered; submits to others take the slow path."""

MOST_TARGETS = 50_000
"""How many targets' numbers are remembered at most, about 10 MB; beyond that all are forgotten and read on demand."""

BLOCK, MOST_OF_BLOCK = 64, 4096
"""How many task numbers are taken from PostgreSQL at once: at first, and at most. The block doubles with each use.

A bulk of 1,000 that took its numbers in its own transaction needed four round trips instead of one.
"""


class Cache:
    """Jobs with their lanes and the counts of their queues, targets, and the numbers of the next tasks."""

    def __init__(self, *on_clear: Callable[[], None]) -> None:
        self._as_of: int | None = None
        self._jobs: LatelyUsed[str, Job] = LatelyUsed(MOST_JOBS, MOST_TEXT)
        self._lanes: dict[tuple[int, str, str], int] = {}
        self._queue_of: dict[int, Queue] = {}
        self._waiting: dict[Queue, Counter[int]] = {}
        """Of each queue all of whose lanes are known: how many tasks wait in it, by priority."""
        self._targets: dict[TargetName, int] = {}
        self._seqs: Sequence[int] = ()
        self._block = BLOCK
        self._on_clear = on_clear

    def clear(self) -> None:
        """Forget everything, because a transaction failed or another writer has written."""
        self._as_of = None
        self._jobs.clear()
        self._forget_lanes()
        self._targets.clear()
        self._forget_seqs()
        for forget in self._on_clear:
            forget()

    def _forget_lanes(self) -> None:
        self._lanes.clear()
        self._queue_of.clear()
        self._waiting.clear()

    def _forget_seqs(self) -> None:
        self._seqs, self._block = (), BLOCK

    def look(self, tx: Tx) -> bool:
        """Return whether the cache may be used in this transaction; clear it if another writer has written since."""
        if not tx.is_exclusive or tx.version != self._as_of:
            self.clear()
            self._as_of = tx.version
        elif max(len(self._lanes), len(self._waiting)) > MOST_LANES:
            self._forget_lanes()
        return tx.is_exclusive

    async def job(self, tx: Tx, full_name: str) -> Job | None:
        """Return the job, or None if it does not exist or was deleted."""
        job = self._jobs.get(full_name)
        if job is None:
            try:
                name = parse_job_name(full_name)
            except InvalidJobName:
                return None
            for job in await load.jobs_by_name(tx, [name], to_change=False):
                self._jobs.put(job.full_name, job, job.size)
        return None if job is None or job.deleted_at is not None else job

    async def lane(self, tx: Tx, key: tuple[int, str, str]) -> tuple[int, Counter[int]] | None:
        """Return the number of a lane, and how many tasks wait in its queue, by priority: who adds tasks counts them.

        Return None if there is no such lane, or its queue has too many.
        """
        queue = key[:2]
        if queue not in self._waiting:
            lanes = await load.lanes_of_queue(tx, *queue, most=MOST_OF_QUEUE + 1)
            if len(lanes) > MOST_OF_QUEUE:
                return None
            self._waiting |= await queue_counts(tx, {queue})
            self.add(lanes)
        lane = self._lanes.get(key)
        return None if lane is None else (lane, self._waiting[queue])

    def add(self, lanes: Iterable[Lane]) -> None:
        """Remember lanes of known queues, among them new ones, before their tasks are counted."""
        for lane in lanes:
            if (queue := lane.key[:2]) in self._waiting:
                self._lanes[lane.key] = lane.id
                self._queue_of[lane.id] = queue

    async def targets(self, tx: Tx, names: set[TargetName]) -> Mapping[TargetName, int]:
        """Return the numbers of these targets, among others; those that don't exist are created."""
        missing = names - self._targets.keys()
        if missing and len(self._targets) + len(missing) > MOST_TARGETS:
            self._targets, missing = {}, names
        self._targets |= await number_targets(tx, missing)
        return self._targets

    async def take_seqs(self, tx: Tx, count: int) -> Sequence[int]:
        """Return numbers for `count` new tasks, ascending; surplus numbers are kept for the next call."""
        if len(self._seqs) < count:
            self._seqs = await coming_seqs(tx, max(count, self._block))
            self._block = min(2 * self._block, MOST_OF_BLOCK)
        taken, self._seqs = self._seqs[:count], self._seqs[count:]
        return taken

    def count(self, deltas: Mapping[CountKey, int]) -> None:
        """Apply other changes of the counts that a transaction made."""
        for (lane, status, priority), n in deltas.items():
            if status == "pending" and (queue := self._queue_of.get(lane)) is not None:
                self._waiting[queue][priority] += n

    def invalidate(self, jobs: Iterable[Job], *, new_tasks: bool) -> None:
        """Forget the jobs that changed, to be read again; with `new_tasks`, the numbers in stock too."""
        for job in jobs:
            self._jobs.drop(job.full_name)
        if new_tasks:
            self._forget_seqs()

"""What the writer remembers of the database between its transactions, so that plain submits read nothing.

SQLite tells by one number whether another connection has written since: as long as it has not, everything that this
writer knew after its last commit still stands. On PostgreSQL there is such a number as long as this server is the
exclusive writer (`store/postgres/exclusive.py`); when there are others nothing is remembered.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from treadle.wire.names import InvalidJobName, parse_job_name
from treadle_server.domain.jobs import MOST_TEXT, Job, Lane
from treadle_server.domain.lately_used import LatelyUsed
from treadle_server.store.base import Tx
from treadle_server.store.transaction import load
from treadle_server.store.transaction.allocate import coming_seqs
from treadle_server.store.transaction.counts import CountKey, pending_counts
from treadle_server.store.transaction.targets import TargetName, number_targets

Queue = tuple[int, str]
"""A job's number and, in a fair job, the room."""

MOST_JOBS = 10_000
"""Jobs that are remembered at most."""

MOST_TARGETS = 50_000
"""Targets whose numbers are remembered at most, about 10 MB; beyond, all are forgotten and read as they come."""

BLOCK, MOST_OF_BLOCK = 64, 4096
"""Numbers of tasks that are taken from PostgreSQL at once: twice as many each time as long as they are used up.

A bulk of 1,000 that took its own in its transaction went there and back four times instead of once.
"""


class Cache:
    """Jobs with their lanes and the counts of their queues, targets, and the next task's number."""

    def __init__(self, *on_clear: Callable[[], None]) -> None:
        self._as_of: int | None = None
        self._jobs: LatelyUsed[str, Job] = LatelyUsed(MOST_JOBS, MOST_TEXT)
        self._lanes: dict[tuple[int, str, str], int] = {}
        self._queue_of: dict[int, Queue] = {}
        self._waiting: dict[Queue, Counter[int]] = defaultdict(Counter)
        self._targets: dict[TargetName, int] = {}
        self._seqs: Sequence[int] = ()
        self._block = BLOCK
        self._on_clear = on_clear

    def clear(self) -> None:
        """Forget everything: a transaction failed, or somebody else has written."""
        self._as_of = None
        self._jobs.clear()
        self._lanes.clear()
        self._queue_of.clear()
        self._waiting.clear()
        self._targets.clear()
        self._forget_seqs()
        for forget in self._on_clear:
            forget()

    def _forget_seqs(self) -> None:
        self._seqs, self._block = (), BLOCK

    def look(self, tx: Tx) -> bool:
        """Return whether anything may be remembered in this transaction; forget it if another has written since."""
        if not tx.is_exclusive or tx.version != self._as_of:
            self.clear()
            self._as_of = tx.version
        return tx.is_exclusive

    async def job(self, tx: Tx, full_name: str) -> Job | None:
        """Return the job, or None when there is none, or it was deleted."""
        job = self._jobs.get(full_name)
        if job is None:
            try:
                name = parse_job_name(full_name)
            except InvalidJobName:
                return None
            for found in await load.jobs_by_name(tx, [name], to_change=False):
                await self._learn(tx, job := found)
        return None if job is None or job.deleted_at is not None else job

    async def _learn(self, tx: Tx, job: Job) -> None:
        self._jobs.put(job.full_name, job, job.size)
        lanes = await load.lanes_of_jobs(tx, [job.num])
        for lane in lanes:
            self._lanes[lane.key] = lane.id
            self._queue_of[lane.id] = (job.num, lane.room)
            self._waiting.pop((job.num, lane.room), None)
        counted = await pending_counts(tx, [lane.id for lane in lanes])
        self.count({(lane, "pending", priority): n for (lane, priority), n in counted.items()})

    def lane(self, key: tuple[int, str, str]) -> int | None:
        """Return the number of a lane of a job that was asked for."""
        return self._lanes.get(key)

    def waiting(self, job: Job, room: str) -> Counter[int]:
        """Return how many wait in the queue of the job, by priority; who adds to it counts them there."""
        return self._waiting[job.num, room]

    async def targets(self, tx: Tx, names: set[TargetName]) -> Mapping[TargetName, int]:
        """Return the numbers of these targets among others; those that don't exist are made."""
        missing = names - self._targets.keys()
        if missing and len(self._targets) + len(missing) > MOST_TARGETS:
            self._targets, missing = {}, names
        self._targets |= await number_targets(tx, missing)
        return self._targets

    async def take_seqs(self, tx: Tx, count: int) -> Sequence[int]:
        """Return the numbers of `count` new tasks, ascending; what is fetched beyond them is kept for the next."""
        if len(self._seqs) < count:
            self._seqs = await coming_seqs(tx, max(count, self._block))
            self._block = min(2 * self._block, MOST_OF_BLOCK)
        taken, self._seqs = self._seqs[:count], self._seqs[count:]
        return taken

    def count(self, deltas: Mapping[CountKey, int]) -> None:
        """Follow what else was counted in a transaction."""
        for (lane, status, priority), n in deltas.items():
            if status == "pending" and (queue := self._queue_of.get(lane)) is not None:
                self._waiting[queue][priority] += n

    def invalidate(self, jobs: Iterable[Job], lanes: Iterable[Lane], *, new_tasks: bool) -> None:
        """Follow what else was changed: jobs and lanes are read anew, and numbers that others took are left to them."""
        changed = {job.num for job in jobs} | {lane.job_num for lane in lanes if lane.id not in self._queue_of}
        for job in self._jobs.values():
            if job.num in changed:
                self._jobs.drop(job.full_name)
        if new_tasks:
            self._forget_seqs()

"""What the passing of time does to tasks and workers; the services send these commands."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from treadle.wire.amounts import in_seconds
from treadle.wire.ids import WorkerId
from treadle.wire.status import Outcome, Reason, Status, WorkerState
from treadle_server.domain import life
from treadle_server.domain.jobs import Worker
from treadle_server.domain.life import Ending
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands.base import OneRow
from treadle_server.engine.commands.internal import STUCK, lose_internal
from treadle_server.engine.commands.steering import expire_task, keep_hold
from treadle_server.engine.commands.workers import DISCONNECTED, lose_run, note_loss, runs_of
from treadle_server.engine.read_set import MOST_WORKERS, NOBODY, ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.transaction.counts import count_alike

GRACE = 2.0
"""Seconds beyond a task's timeout for which the worker's own report is awaited, at most the interval of the sweeps."""

MOST = 500
"""How many tasks one command handles at most, so that it never holds up the writer for long."""

MOST_DUE = 150
"""How many tasks are promoted at once: about as many as workers take meanwhile, so most are claimed as they wake.

When 10,000 wake at once, PostgreSQL spends 0.55 s with 150, 0.65 with 200 and 0.75 with 300, each written twice.
"""

MOST_DUE_OF_SEVERAL = 1000
"""The same where there are other servers: there each portion is a transaction of eight round trips."""


@dataclass(slots=True)
class LookAhead(OneRow):
    """Reads a portion of the tasks that are due soon, if there are many; answers whether there are more to read."""

    until: datetime

    def reads(self, reads: ReadSet) -> None:
        """Read the next portion."""
        reads.due_until = self.until

    def apply(self, work: UnitOfWork) -> bool:
        """Return whether there are more to read."""
        return work.reads_on


@dataclass(slots=True)
class PromoteDue:
    """Moves due tasks into their queues; answers how many there were: fewer than `rows` if these were all."""

    rows = MOST_DUE

    def reads(self, reads: ReadSet) -> None:
        """Read the due tasks."""
        reads.due = (MOST_DUE, MOST_DUE_OF_SEVERAL)

    def apply(self, work: UnitOfWork) -> int:
        """Return how many were promoted."""
        due = [t for t in work.found["due"] if t.status is Status.SCHEDULED and t.due_at <= work.now]
        alone: list[Task] = []
        """Tasks that wait for nothing else and that this batch has not changed yet: they are written together."""
        for task in due:
            if task.stands_in_line or task.seq in work.changes.before:
                work.open(task)
            else:
                work.changes.was[task.seq] = task.status
                work.changes.promoted.append((task, task.version))
                alone.append(task)
            life.promote(task, work.now)
            work.changed(task)
        work.changes.promoted_counts.update(count_alike(alone, Status.SCHEDULED))
        return len(due)


@dataclass(slots=True)
class ExpireLeases:
    """Ends runs that their worker did not renew, did not start, or let exceed their timeout."""

    stamped_at: datetime | None = None
    """When the leases were last restamped: for earlier runs, the two other time limits count from then too."""
    until: datetime | None = None
    """After this instant nothing is ended: the clock has jumped, or nobody could renew, since the sweep began."""
    grace: float = GRACE
    """Seconds beyond a task's timeout for which the worker's own report is awaited."""

    rows = MOST

    def reads(self, reads: ReadSet) -> None:
        """Read the tasks whose lease has ended, or that exceed one of the other two time limits."""
        reads.found |= dict.fromkeys(_OVERDUE, MOST)
        reads.stamped_at, reads.grace = self.stamped_at, timedelta(seconds=self.grace)

    def apply(self, work: UnitOfWork) -> int:
        """Return how many runs were ended."""
        if _is_over(self.until, work.now):
            return 0
        ended = 0
        for task in {t.seq: t for name in _OVERDUE for t in work.found[name]}.values():
            if task.is_leased and (reason := self._reason(work, task)) is not None:
                self._end(work, task, *reason)
                ended += 1
        return ended

    def _reason(self, work: UnitOfWork, task: Task) -> tuple[Reason, str] | None:
        now = work.now
        if _is_stuck(task, now):
            return Reason.TIMEOUT, STUCK
        if task.taken_until is not None and task.taken_until <= now:
            return Reason.CLAIM_EXPIRED, DISCONNECTED
        is_claimed = task.status is Status.CLAIMED
        if is_claimed and not task.is_internal and self._is_past(now, task.claimed_at, task.start_timeout):
            return Reason.START_TIMEOUT, f"not started within {in_seconds(task.start_timeout)} of the claim"
        # The worker enforces its timeout itself; the server follows when the worker does not.
        timeout = task.timeout
        if not is_claimed and timeout is not None and self._is_past(now, task.started_at, timeout + self.grace):
            return Reason.TIMEOUT, f"ran longer than its timeout of {in_seconds(timeout)}"
        return None

    def _is_past(self, now: datetime, since: datetime | None, limit: float) -> bool:
        if since is None:
            return False
        if self.stamped_at is not None and not self.stamped_at <= since <= now:
            # Since then the clock jumped, or there was an outage: `since` does not show how long the run has had.
            since = self.stamped_at
        return since + timedelta(seconds=limit) <= now

    def _end(self, work: UnitOfWork, task: Task, reason: Reason, error: str) -> None:
        if reason is not Reason.TIMEOUT:
            # The clock had not jumped when the sweep began, so the lease has really ended.
            is_over = task.taken_until is not None and task.taken_until <= work.now
            lose_run(work, task, reason, error, is_over=is_over)
            return
        work.open(task)
        until, is_stuck = task.taken_until, _is_stuck(task, work.now)
        run = life.fail(task, Ending(Outcome.FAILED, reason, error), work.now, work.draw, is_final=is_stuck)
        # Nobody will report that stuck code has ended, so its slot is freed whatever becomes of it.
        work.add_run(task, run, code_ended=is_stuck)
        if not keep_hold(work, task, until) and not is_stuck:
            note_loss(work, task.worker_id)
        work.changed(task)
        if task.completed_at is not None:
            work.maybe_orphan(task.job_num)


_OVERDUE = ("expired", "unstarted", "overlong")
"""The finders of runs that have exceeded a time limit."""


def _is_over(until: datetime | None, now: datetime) -> bool:
    return until is not None and now > until


def _is_stuck(task: Task, now: datetime) -> bool:
    """Return whether an internal executor has had the task for too long, which is the sense of its lease (Z13)."""
    return task.is_internal and task.taken_until is not None and task.taken_until <= now


@dataclass(slots=True)
class MissDeadlines:
    """Fails tasks that are still open past their deadline (C11)."""

    rows = MOST

    def reads(self, reads: ReadSet) -> None:
        """Read the overdue tasks."""
        reads.found["overdue"] = MOST

    def apply(self, work: UnitOfWork) -> int:
        """Return how many tasks were failed."""
        overdue = [t for t in work.found["overdue"] if t.completed_at is None]
        for task in overdue:
            expire_task(work, task)
        return len(overdue)


@dataclass(slots=True)
class SweepWorkers:
    """Marks silent workers as lost and drops their links; their unfinished runs end as lost (Z11)."""

    timeout: float
    """Seconds."""
    until: datetime | None = None
    """As in `ExpireLeases`."""

    rows = MOST

    def reads(self, reads: ReadSet) -> None:
        """Read the stale workers with what they hold."""
        reads.stale = timedelta(seconds=self.timeout)

    def apply(self, work: UnitOfWork) -> list[WorkerId]:
        """Return the workers that it marked as lost: fewer than `MOST_WORKERS` if these were all."""
        if _is_over(self.until, work.now):
            return []
        before = work.now - timedelta(seconds=self.timeout)
        gone = [work.workers[w] for w in work.stale if w in work.workers]
        gone = [w for w in gone if w.state is not WorkerState.LOST and w.last_heartbeat < before]
        for worker in gone:
            self._lose(work, worker)
        return [worker.id for worker in gone]

    def _lose(self, work: UnitOfWork, worker: Worker) -> None:
        for task in runs_of(work, worker.id):
            if task.is_internal:
                lose_internal(work, task, is_dead=False)
            else:
                lose_run(work, task, Reason.CLAIM_EXPIRED, DISCONNECTED)
        worker.state = WorkerState.LOST
        worker.lost_at = work.now
        work.unlink(worker)
        work.change_worker(worker)


@dataclass(slots=True)
class ReleaseHolds(OneRow):
    """Ends the holds whose lease has ended."""

    until: datetime | None = None
    """As in `ExpireLeases`."""

    def reads(self, reads: ReadSet) -> None:
        """Read these holds."""
        reads.ended_holds = True

    def apply(self, work: UnitOfWork) -> int:
        """Return how many holds it ended."""
        if _is_over(self.until, work.now):
            return 0
        ended = [hold for hold in work.holds.values() if hold.until <= work.now]
        for hold in ended:
            work.drop_hold(hold)
            note_loss(work, hold.worker_id)
        return len(ended)


@dataclass(slots=True)
class RestampLeases:
    """Restamps leases: gives them their full length again.

    After an outage or a jump of the clock, no worker is to blame for a missed heartbeat. The leases of internal
    executors count from the claim, and so are only moved with the clock.
    """

    seqs: Sequence[int]
    """Numbers of tasks that were leased a moment ago."""
    jump: timedelta = timedelta(0)
    """By how much the clock has jumped."""

    @property
    def rows(self) -> int:
        """Return how many tasks it writes at most."""
        return len(self.seqs)

    def reads(self, reads: ReadSet) -> None:
        """Read nothing: the database updates them itself."""

    def apply(self, work: UnitOfWork) -> None:
        """Have the leases written with the batch."""
        work.changes.restamped.append((self.seqs, self.jump))


@dataclass(slots=True)
class RestampPresent:
    """Restamps every hold and, in several steps, every worker that is not lost, for the same reasons."""

    after: WorkerId = NOBODY
    """Behind which worker this step begins; the first one restamps the holds."""

    rows = MOST

    def reads(self, reads: ReadSet) -> None:
        """Read the next workers that are not lost, and for the first step all holds."""
        reads.present_after = self.after

    def apply(self, work: UnitOfWork) -> WorkerId | None:
        """Restamp them; return the worker behind which the next step begins, or None if these were all."""
        for hold in list(work.holds.values()):
            work.renew_hold(replace(hold, until=work.now + timedelta(seconds=hold.lease_seconds)))
        for worker in work.workers.values():
            if worker.state is not WorkerState.LOST:
                worker.last_heartbeat = work.now
                work.change_worker(worker)
        return work.present[-1] if len(work.present) >= MOST_WORKERS else None


@dataclass(slots=True)
class DeleteOrphans(OneRow):
    """Checks every job that might be an orphan (Z6)."""

    job_nums: list[int]

    def reads(self, reads: ReadSet) -> None:
        """Read the jobs, to change them."""
        reads.job_nums.update(self.job_nums)
        reads.jobs_change = True

    def apply(self, work: UnitOfWork) -> None:
        """Have the jobs checked when the batch is written."""
        for num in self.job_nums:
            work.maybe_orphan(num)

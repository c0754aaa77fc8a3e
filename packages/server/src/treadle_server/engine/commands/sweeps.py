"""What time does to tasks and workers; the services send these commands."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

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
from treadle_server.engine.needs import Needs
from treadle_server.engine.world import World

GRACE = 2.0
"""Seconds beyond a task's timeout in which the worker's own report is awaited; never more than between two sweeps."""

MOST = 500
"""Tasks that one command takes at once, so that the writer is never held for long."""


@dataclass(slots=True)
class PromoteDue:
    """Moves what is due into the queue; returns how many there were (at most `MOST`)."""

    rows = MOST

    def needs(self, needs: Needs) -> None:
        """Read what is due."""
        needs.found["due"] = MOST

    def apply(self, world: World) -> int:
        """Return how many were promoted."""
        due = [t for t in world.found["due"] if t.status is Status.SCHEDULED and t.due_at <= world.now]
        for task in due:
            world.open(task)
            life.promote(task, world.now)
            world.changed(task)
        return len(due)


@dataclass(slots=True)
class ExpireLeases:
    """Takes runs from workers that did not renew them, did not start them, or ran over their time."""

    stamped_at: datetime | None = None
    """When the leases were last stamped anew: the two other limits count from then, too, for runs of before."""
    until: datetime | None = None
    """When it is later, nothing is taken: the clock has jumped, or nobody could renew, since the sweep began."""
    grace: float = GRACE
    """Seconds beyond a task's timeout in which the worker's own report is awaited."""

    rows = MOST

    def needs(self, needs: Needs) -> None:
        """Read what is leased beyond its time, and what is beyond one of the other two limits."""
        needs.found |= dict.fromkeys(_OVERDUE, MOST)
        needs.stamped_at, needs.grace = self.stamped_at, timedelta(seconds=self.grace)

    def apply(self, world: World) -> int:
        """Return how many runs were ended."""
        if _is_over(self.until, world.now):
            return 0
        ended = 0
        for task in {t.seq: t for name in _OVERDUE for t in world.found[name]}.values():
            if task.is_leased and (reason := self._reason(world, task)) is not None:
                self._end(world, task, *reason)
                ended += 1
        return ended

    def _reason(self, world: World, task: Task) -> tuple[Reason, str] | None:
        now = world.now
        if _is_stuck(task, now):
            return Reason.TIMEOUT, STUCK
        if task.taken_until is not None and task.taken_until <= now:
            return Reason.CLAIM_EXPIRED, DISCONNECTED
        is_claimed = task.status is Status.CLAIMED
        if is_claimed and not task.is_internal and self._is_past(now, task.claimed_at, task.start_timeout):
            return Reason.START_TIMEOUT, f"not started within {task.start_timeout:g} s of the claim"
        # The worker enforces its timeout itself; the server follows when the worker does not.
        limit = None if task.timeout is None else task.timeout + self.grace
        if not is_claimed and self._is_past(now, task.started_at, limit):
            return Reason.TIMEOUT, f"ran longer than its timeout of {task.timeout:g} s"
        return None

    def _is_past(self, now: datetime, since: datetime | None, limit: float | None) -> bool:
        if since is None or limit is None:
            return False
        if self.stamped_at is not None and not self.stamped_at <= since <= now:
            # The clock jumped or nobody was there since: what it shows says nothing of how long the run has had.
            since = self.stamped_at
        return since + timedelta(seconds=limit) <= now

    def _end(self, world: World, task: Task, reason: Reason, error: str) -> None:
        if reason is not Reason.TIMEOUT:
            # The sweep began with a clock that had not jumped.
            is_over = task.taken_until is not None and task.taken_until <= world.now
            lose_run(world, task, reason, error, is_over=is_over)
            return
        world.open(task)
        until, is_stuck = task.taken_until, _is_stuck(task, world.now)
        run = life.fail(task, Ending(Outcome.FAILED, reason, error), world.now, world.draw, is_final=is_stuck)
        # Nobody is left to say that stuck code has ended: its slot is free, whatever becomes of it.
        world.add_run(task, run, code_ended=is_stuck)
        if not keep_hold(world, task, until) and not is_stuck:
            note_loss(world, task.worker_id)
        world.changed(task)
        if task.completed_at is not None:
            world.maybe_orphan(task.job_num)


_OVERDUE = ("expired", "unstarted", "overlong")
"""The finders of runs that have had their time."""


def _is_over(until: datetime | None, now: datetime) -> bool:
    return until is not None and now > until


def _is_stuck(task: Task, now: datetime) -> bool:
    """Return whether an internal executor has had the task for too long, which is all that its lease says (Z13)."""
    return task.is_internal and task.taken_until is not None and task.taken_until <= now


@dataclass(slots=True)
class MissDeadlines:
    """Fails what is still open past its deadline (C11)."""

    rows = MOST

    def needs(self, needs: Needs) -> None:
        """Read what is overdue."""
        needs.found["overdue"] = MOST

    def apply(self, world: World) -> int:
        """Return how many tasks were failed."""
        overdue = [t for t in world.found["overdue"] if t.completed_at is None]
        for task in overdue:
            expire_task(world, task)
        return len(overdue)


@dataclass(slots=True)
class SweepWorkers:
    """Marks workers lost that were not heard of, and drops their links; their unfinished tasks end as lost (Z11)."""

    timeout: float
    """Seconds."""
    until: datetime | None = None
    """As in `ExpireLeases`."""

    rows = MOST

    def needs(self, needs: Needs) -> None:
        """Read the stale workers with what they hold."""
        needs.stale = timedelta(seconds=self.timeout)

    def apply(self, world: World) -> list[WorkerId]:
        """Return the workers that were lost."""
        if _is_over(self.until, world.now):
            return []
        before = world.now - timedelta(seconds=self.timeout)
        gone = [world.workers[w] for w in world.stale if w in world.workers]
        gone = [w for w in gone if w.state is not WorkerState.LOST and w.last_heartbeat < before]
        for worker in gone:
            self._lose(world, worker)
        return [worker.id for worker in gone]

    def _lose(self, world: World, worker: Worker) -> None:
        for task in runs_of(world, worker.id):
            if task.is_internal:
                lose_internal(world, task, is_dead=False)
            else:
                lose_run(world, task, Reason.CLAIM_EXPIRED, DISCONNECTED)
        worker.state = WorkerState.LOST
        worker.lost_at = world.now
        world.unlink(worker)
        world.change_worker(worker)


@dataclass(slots=True)
class ReleaseHolds(OneRow):
    """Ends the holds whose lease is over."""

    until: datetime | None = None
    """As in `ExpireLeases`."""

    def needs(self, needs: Needs) -> None:
        """Read them."""
        needs.ended_holds = True

    def apply(self, world: World) -> int:
        """Return how many ended."""
        if _is_over(self.until, world.now):
            return 0
        ended = [hold for hold in world.holds.values() if hold.until <= world.now]
        for hold in ended:
            world.drop_hold(hold)
            note_loss(world, hold.worker_id)
        return len(ended)


@dataclass(slots=True)
class RestampLeases:
    """Gives the tasks' leases their full length anew.

    After an outage or a jump of the clock nobody is to blame for a missed heartbeat. What internal executors have is
    counted from its claim: it is only moved with the clock.
    """

    seqs: Sequence[int]
    """Tasks that were leased a moment ago."""
    jump: timedelta = timedelta(0)
    """By how much the clock has jumped."""

    @property
    def rows(self) -> int:
        """Return how many tasks it writes at most."""
        return len(self.seqs)

    def needs(self, needs: Needs) -> None:
        """Read nothing: they are written where they stand."""

    def apply(self, world: World) -> None:
        """Have them written with the batch."""
        world.changes.restamped.append((self.seqs, self.jump))


@dataclass(slots=True)
class RestampPresent:
    """Gives every hold its full length, and every worker its time, anew, for the same reasons."""

    rows = MOST

    def needs(self, needs: Needs) -> None:
        """Read them all."""
        needs.every_worker = True
        needs.every_hold = True

    def apply(self, world: World) -> None:
        """Stamp them."""
        for hold in list(world.holds.values()):
            world.renew_hold(replace(hold, until=world.now + timedelta(seconds=hold.lease_seconds)))
        for worker in world.workers.values():
            if worker.state is not WorkerState.LOST:
                worker.last_heartbeat = world.now
                world.change_worker(worker)


@dataclass(slots=True)
class DeleteOrphans(OneRow):
    """Looks at every job that might be an orphan (Z6)."""

    job_nums: list[int]

    def needs(self, needs: Needs) -> None:
        """Read the jobs, to change them."""
        needs.job_nums.update(self.job_nums)
        needs.jobs_change = True

    def apply(self, world: World) -> None:
        """Have them looked at when the batch is written."""
        for num in self.job_nums:
            world.maybe_orphan(num)

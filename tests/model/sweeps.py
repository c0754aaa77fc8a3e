"""What time does: the model's promoter and sweeper."""

from datetime import datetime, timedelta
from math import inf

from tests.model.claims import Turns
from tests.model.schedules import Schedules
from tests.model.things import Task
from treadle.wire.status import Outcome, Reason, Status, WorkerState
from treadle.wire.transitions import Verb

GRACE = 2.0
"""Seconds beyond a task's timeout in which its worker's own report is awaited."""

JUMP = 5.0
"""Seconds by which the clock may part from the time that passed."""


class Sweeps(Schedules):
    """What time does."""

    def __init__(self, worker_timeout: float = 60.0) -> None:
        super().__init__(worker_timeout)
        self.apart: dict[int, list[float]] = {}
        """How far the clock was from one that nobody sets, in seconds, as each server saw it since it last swept."""

    def see_clock(self, now: datetime, passed: float) -> None:
        """Every server sees what the clock shows."""
        for seen in self.apart.values():
            seen.append(now.timestamp() - passed)

    def promote(self, now: datetime) -> None:
        """Put what is due into the queue."""
        for task in self.tasks.values():
            if task.status is Status.SCHEDULED and task.scheduled_at <= now:
                self.move(task, Verb.PROMOTE, Status.PENDING, now)
                self.wake(task)

    def sweep(self, now: datetime, passed: float, server: int = 0, commits: int | None = None) -> None:
        """Take runs from workers that are gone; `passed` are the seconds of a clock that nobody sets.

        The first sweep, and one that finds that the clock was set, takes nothing: it gives every lease anew. After so
        many `commits` the server has gone.
        """
        self.see_clock(now, passed)
        seen, self.apart[server] = self.apart.get(server), [now.timestamp() - passed]
        if seen is None or max(seen) - min(seen) > JUMP:
            for stage in (self._restamp_present, self._restamp_leases)[:commits]:
                stage(now)
            self.stamped_at[server] = now
            return
        stamped_at = self.stamped_at[server]
        stages = (
            self._miss_deadlines, lambda now: self._take_runs(now, stamped_at), self._end_holds, self._lose_workers,
        )  # fmt: skip
        for one in stages[:commits]:
            one(now)
            self.go_on(now)
        self.delete_orphans()

    def _miss_deadlines(self, now: datetime) -> None:
        for task in list(self.tasks.values()):
            if task.is_open and task.deadline is not None and task.deadline <= now:
                self.expire(task, now)

    def _take_runs(self, now: datetime, stamped_at: datetime) -> None:
        for task in list(self.tasks.values()):
            if task.is_leased:
                self._sweep_run(task, now, stamped_at)

    def _end_holds(self, now: datetime) -> None:
        for key, hold in list(self.holds.items()):
            if hold.until <= now:
                del self.holds[key]
                self.note_loss(hold.worker_id, now)

    def _lose_workers(self, now: datetime) -> None:
        for worker in self.workers.values():
            is_late = worker.last_heartbeat < now - timedelta(seconds=self.worker_timeout)
            if is_late and worker.state is not WorkerState.LOST:
                for task in self.runs_of(worker.id):
                    self.lose_run(task, Reason.CLAIM_EXPIRED, "Worker disconnected", now)
                worker.state, worker.jobs = WorkerState.LOST, set()

    def _sweep_run(self, task: Task, now: datetime, stamped_at: datetime) -> None:
        assert task.taken_until is not None
        limit = task.start_timeout if task.status is Status.CLAIMED else (task.timeout or inf) + GRACE
        since = task.claimed_at if task.status is Status.CLAIMED else task.started_at
        assert since is not None
        # What happened before the leases were given anew, or later than now, counts from then.
        since = since if stamped_at <= since <= now else stamped_at
        is_past = limit < inf and since + timedelta(seconds=limit) <= now
        if task.taken_until <= now:
            self.lose_run(task, Reason.CLAIM_EXPIRED, "Worker disconnected", now, is_over=True)
        elif is_past and task.status is Status.CLAIMED:
            why = f"not started within {task.start_timeout:g} s of the claim"
            self.lose_run(task, Reason.START_TIMEOUT, why, now)
        elif is_past:
            self._time_out(task, now)

    def _time_out(self, task: Task, now: datetime) -> None:
        until, run_id, worker_id = task.taken_until, task.run_id, task.worker_id
        why = f"ran longer than its timeout of {task.timeout:g} s"
        self.fail(task, Outcome.FAILED, Reason.TIMEOUT, now, error=why)
        if not self.keep_hold(task, run_id, until):
            self.note_loss(worker_id, now)

    def restart(self, server: int) -> None:
        """The server is gone, and another begins: whose turn it was is forgotten."""
        self.turns = Turns()
        self.apart.pop(server, None)

    def _restamp_present(self, now: datetime) -> None:
        for hold in list(self.holds.values()):
            self.renew_hold(hold, now + timedelta(seconds=hold.lease_seconds))
        for worker in self.workers.values():
            if worker.state is not WorkerState.LOST:
                worker.last_heartbeat = now

    def _restamp_leases(self, now: datetime) -> None:
        """After an outage or a step of the clock every lease begins anew."""
        for task in self.tasks.values():
            if task.is_leased:
                assert task.claimed_at is not None
                task.taken_until = now + timedelta(seconds=max(task.lease_seconds, task.heartbeat_increment))
                task.claimed_at = min(task.claimed_at, now)
                task.started_at = task.started_at and min(task.started_at, now)

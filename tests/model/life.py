"""The model's core: which state follows which, what a run leaves behind, and what keeps a task from being claimed."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tests.model.things import TRANSITION, Hold, Job, Run, Schedule, Task, Worker
from treadle.wire.status import REQUEUED, RETRIED, Outcome, Reason, Status, WorkerState
from treadle.wire.transitions import TRANSITIONS, Verb

CAP = 86_400.0
"""Seconds: the longest back-off."""


def allowed(task: Task, verb: Verb, to: Status) -> None:
    """Refuse what the table of transitions does not hold."""
    if task.status not in TRANSITIONS[verb].sources or to not in TRANSITIONS[verb].targets:
        raise TRANSITION


class Life:
    """Everything there is, and the moves that all operations are made of. `now` is the instant of the operation."""

    def __init__(self, worker_timeout: float = 60.0) -> None:
        self.worker_timeout = worker_timeout
        self.jobs: dict[str, Job] = {}
        self.tasks: dict[str, Task] = {}
        self.runs: dict[tuple[str, int], Run] = {}
        self.holds: dict[tuple[str, int], Hold] = {}
        self.workers: dict[str, Worker] = {}
        self.schedules: dict[tuple[str, str], Schedule] = {}
        """By room and name."""
        self.ended: list[str] = []
        """The tasks that the operation under way has ended."""
        self.news: set[str] = set()
        """The tasks that have ended, or are to run again, and of which those that wait for them were not told yet."""
        self.stamped_at: dict[int, datetime] = {}
        """When each server last gave every lease anew."""

    # Moves

    def move(self, task: Task, verb: Verb, to: Status, now: datetime) -> None:
        allowed(task, verb, to)
        task.status = to
        task.version += 1
        task.updated_at = now

    def finish(self, task: Task, verb: Verb, to: Status, now: datetime) -> None:
        was_open = task.is_open
        self.move(task, verb, to, now)
        task.completed_at, task.next_retry_at = now, None
        if was_open:
            self.ended.append(task.id)
        self.note_news(task)

    def note_news(self, task: Task) -> None:
        """Those that wait for the task are to be told where it is."""
        if any(task.id in other.needs for other in self.tasks.values()):
            self.news.add(task.id)

    def put_back(self, task: Task, verb: Verb, delay: float, now: datetime) -> None:
        if delay > 0:
            self.move(task, verb, Status.SCHEDULED, now)
            task.scheduled_at = task.next_retry_at = now + timedelta(seconds=delay)
        else:
            self.move(task, verb, Status.PENDING, now)

    @staticmethod
    def wake(task: Task) -> None:
        """It is not asleep any more."""
        if task.reason is Reason.SUSPENDED:
            task.reason = None

    def interrupt(self, task: Task, now: datetime) -> None:
        self.move(task, Verb.INTERRUPT, Status.PAUSED, now)
        task.cancel_requested = False
        task.reason = Reason.INTERRUPTED
        task.error = task.error or "interrupted by user"

    def end_run(
        self,
        task: Task,
        outcome: Outcome,
        reason: Reason | None,
        now: datetime,
        *,
        error: str | None = None,
        usage: float | None = None,
        said: Any = None,
    ) -> None:
        """Resolve the open run, for good."""
        self.use(task, usage)
        before = task.usage_before or 0.0
        spent = usage if usage is not None else self._spent(task, before)
        key = (task.id, task.run_id)
        assert task.claimed_at is not None
        assert task.run_id is not None
        assert key not in self.runs, "a run ends once"
        self.runs[task.id, task.run_id] = Run(
            task.id, task.run_id, outcome, reason, error, task.worker_id, spent, task.claimed_at, task.started_at, now,
            said,
        )  # fmt: skip
        task.taken_until = task.progress = None
        task.usage_before = task.usage
        task.goes_first = task.goes_first or outcome is not Outcome.COMPLETED

    @staticmethod
    def _spent(task: Task, before: float) -> float | None:
        if task.usage is None or task.usage_before is None:
            return task.usage
        return task.usage - before if task.usage > before else None

    @staticmethod
    def use(task: Task, usage: float | None) -> None:
        """The task's usage is the sum over all of its runs."""
        if usage is not None:
            task.usage = (task.usage_before or 0.0) + usage

    @staticmethod
    def is_over_budget(task: Task, usage: float | None = None) -> bool:
        total = task.usage if usage is None else (task.usage_before or 0.0) + usage
        return task.budget is not None and total is not None and total > task.budget

    @staticmethod
    def renew(task: Task, now: datetime) -> None:
        assert task.taken_until is not None
        if task.heartbeat_increment > 0:
            task.taken_until = max(task.taken_until, now + timedelta(seconds=task.heartbeat_increment))

    def fail(
        self,
        task: Task,
        outcome: Outcome,
        reason: Reason,
        now: datetime,
        *,
        error: str | None = None,
        usage: float | None = None,
        retry_after: float | None = None,
        said: Any = None,
    ) -> None:
        """End the run badly: the task is tried again, paused or failed, as its budgets and flags say."""
        self.end_run(task, outcome, reason, now, error=error, usage=usage, said=said)
        task.error, task.reason = error, reason
        if reason is Reason.BUDGET_EXCEEDED:
            self.finish(task, Verb.FAIL, Status.FAILED, now)
            task.cancel_requested = False
        elif task.cancel_requested:
            self.interrupt(task, now)
        elif self._may_retry(task, reason):
            delay = self._backoff(task) if retry_after is None else retry_after
            task.retry_count += 1
            self.put_back(task, Verb.RETRY, delay, now)
        elif reason in REQUEUED and task.requeue_count < task.max_requeues and not task.unfenced:
            lost_before, task.requeue_count = task.requeue_count, task.requeue_count + 1
            self.put_back(task, Verb.REQUEUE, min(60.0, 2.0 ** (lost_before - 1)) if lost_before else 0.0, now)
        else:
            self.finish(task, Verb.FAIL, Status.FAILED, now)

    @staticmethod
    def _may_retry(task: Task, reason: Reason) -> bool:
        is_unfenced_loss = task.unfenced and reason is Reason.TIMEOUT
        return reason in RETRIED and task.retry_count < task.max_retries and not is_unfenced_loss

    @staticmethod
    def _backoff(task: Task) -> float:
        return min(CAP, task.retry_base * task.retry_multiplier**task.retry_count)

    def lose_run(self, task: Task, reason: Reason, error: str, now: datetime, *, is_over: bool = False) -> None:
        """Its worker is gone. A target and limits stay held until the lease `is_over`: the code may run until then."""
        self.note_loss(task.worker_id, now)
        until, run_id = task.taken_until, task.run_id
        self.fail(task, Outcome.EXCEPTION, reason, now, error=error)
        if (task.target is not None or task.counts) and not is_over:
            self.keep_hold(task, run_id, until, slot_only=True)

    def note_loss(self, worker_id: str | None, now: datetime) -> None:
        """A worker that lost a run owes a heartbeat, as if it still had it."""
        if worker_id in self.workers:
            self.workers[worker_id].run_lost_at = now

    def expire(self, task: Task, now: datetime) -> None:
        """The deadline has passed."""
        until, run_id, was_leased = task.taken_until, task.run_id, task.is_leased
        error = "the deadline has passed"
        if was_leased:
            self.end_run(task, Outcome.EXCEPTION, Reason.DEADLINE_EXCEEDED, now, error=error)
        self.finish(task, Verb.EXPIRE, Status.FAILED, now)
        task.reason, task.error, task.cancel_requested = Reason.DEADLINE_EXCEEDED, error, False
        if was_leased:
            self.keep_hold(task, run_id, until)

    def cancel(self, task: Task, now: datetime, reason: Reason = Reason.CANCELLED) -> None:
        """End it at once; what runs keeps its hold until its code has stopped."""
        allowed(task, Verb.CANCEL, Status.CANCELLED)
        until, run_id, was_leased = task.taken_until, task.run_id, task.is_leased
        if was_leased:
            self.end_run(task, Outcome.CANCELLED, reason, now)
        self.finish(task, Verb.CANCEL, Status.CANCELLED, now)
        task.reason, task.cancel_requested = reason, False
        if was_leased:
            self.keep_hold(task, run_id, until)

    # Holds and targets

    def keep_hold(self, task: Task, run_id: int | None, until: datetime | None, *, slot_only: bool = False) -> bool:
        """Let a run that is over keep its target and its slot; return whether it does. Sweeps alone end old ones."""
        if until is None or task.worker_id is None or task.unfenced or run_id is None:
            return False
        target = self.target_of(task)
        self.holds[task.id, run_id] = Hold(
            task.id, run_id, task.worker_id, target, task.weight, until, task.lease_seconds,
            slot_only=slot_only and target is None,
        )  # fmt: skip
        return True

    @staticmethod
    def target_of(task: Task) -> tuple[str, str] | None:
        return None if task.target is None else (task.room_id, task.target)

    @staticmethod
    def holds_target(task: Task) -> bool:
        """Whether the task itself, by its state, keeps others of its target from being claimed."""
        return task.target is not None and (
            task.is_leased
            or task.status is Status.PAUSED
            or (task.status is Status.SCHEDULED and task.run_id is not None)
            or (task.status is Status.FAILED and task.on_failure == "hold" and not task.settled)
        )

    def rests(self, task: Task) -> bool:
        """Whether the code of an earlier run may still run."""
        return any(hold.task_id == task.id and not hold.slot_only for hold in self.holds.values())

    def is_held(self, target: tuple[str, str]) -> bool:
        if any(hold.target == target for hold in self.holds.values()):
            return True
        return any(self.target_of(task) == target and self.holds_target(task) for task in self.tasks.values())

    def line(self, target: tuple[str, str]) -> list[Task]:
        """Those that wait for a target, in the order in which they get it."""
        waiting = [t for t in self.tasks.values() if t.status is Status.PENDING and self.target_of(t) == target]
        return sorted(
            (task for task in waiting if not self.rests(task)), key=lambda task: (not task.goes_first, task.place)
        )

    def is_claimable(self, task: Task, now: datetime) -> bool:
        """Whether any worker might be given the task: it is pending, and nothing holds it back."""
        job = self.jobs[task.job_name]
        if task.status is not Status.PENDING or job.paused or job.deleted or self.rests(task):
            return False
        if task.deadline is not None and task.deadline <= now:
            return False
        target = self.target_of(task)
        return target is None or (not self.is_held(target) and self.line(target)[0] is task)

    # Workers

    def revive(self, worker: Worker, now: datetime) -> None:
        """It was heard of."""
        worker.last_heartbeat, worker.run_lost_at = now, None
        if worker.state is WorkerState.LOST:
            worker.state = WorkerState.ONLINE

    def runs_of(self, worker_id: str) -> list[Task]:
        return [task for task in self.tasks.values() if task.is_leased and task.worker_id == worker_id]

    def runs_ended(self, task: Task) -> list[Run]:
        return [run for run in self.runs.values() if run.task_id == task.id]

    def weight_of(self, worker_id: str) -> int:
        """What the worker holds: its runs, and those that are only stopping."""
        stopping = sum(hold.weight for hold in self.holds.values() if hold.worker_id == worker_id)
        return stopping + sum(task.weight for task in self.runs_of(worker_id))

    def delete_orphans(self) -> None:
        """A job that nobody serves, with nothing open, and that is not to be kept, is deleted."""
        for full_name, job in self.jobs.items():
            is_served = any(full_name in worker.jobs for worker in self.workers.values())
            is_busy = any(task.is_open and task.job_name == full_name for task in self.tasks.values())
            is_kept = any(one.job_name == full_name and not one.deleted for one in self.schedules.values())
            if not (job.retain or is_served or is_busy or is_kept):
                job.deleted = True

    def renew_hold(self, hold: Hold, until: datetime) -> Hold:
        self.holds[hold.task_id, hold.run_id] = renewed = replace(hold, until=until)
        return renewed

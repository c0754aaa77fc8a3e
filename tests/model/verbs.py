"""The model's verbs: cancel, pause, resume, resolve, rerun; edit; and an older client's update of a status."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.model.life import allowed
from tests.model.submits import Given, Submits
from tests.model.things import CONFLICT, FORBIDDEN, INVALID, NO_TASK, STALE, TRANSITION, Refused, Task, User
from treadle.wire.status import Outcome, Reason, Status
from treadle.wire.transitions import Verb

REPORTED = {
    Status.RUNNING: Verb.START,
    Status.COMPLETED: Verb.COMPLETE,
    Status.FAILED: Verb.FAIL,
    Status.PAUSED: Verb.INTERRUPT,
}
"""The verbs that an update of a status stands for."""


class Verbs(Submits):
    """What users do."""

    def steered(self, user: User, task_id: str, if_version: int | None) -> Task:
        """Return the task that the user may steer, if nobody touched it since that version."""
        if (task := self.tasks.get(task_id)) is None:
            raise NO_TASK
        self.check_control(user, task)
        if if_version is not None and task.version != if_version:
            raise CONFLICT
        return task

    def steer(
        self, user: User, task_id: str, action: str, now: datetime, *, if_version: int | None = None, **given: Any
    ) -> Task:
        """Cancel, pause, resume, rerun or resolve a task."""
        task = self.steered(user, task_id, if_version)
        match action:
            case "cancel":
                self.cancel(task, now)
            case "pause":
                self._pause(task, now)
            case "resume":
                self._check_again(task, Verb.RESUME, now)
                self._resume(task, now, is_undo=if_version is not None)
            case "rerun":
                self._check_again(task, Verb.RERUN, now)
                from_step = given.get("from_step")
                is_undo = if_version is not None and from_step is None and task.status is Status.CANCELLED
                if not is_undo:
                    self.clear_steps(task, from_step)
                self._rerun(task, now, is_undo=is_undo)
            case "resolve":
                self._resolve(task, Status(given.get("status", "completed")), given, now)
        return task

    def steer_many(
        self, user: User, ids: Sequence[str], action: str, now: datetime, **given: Any
    ) -> dict[str, int | str]:
        """Steer each task by itself: its new version, or the name of the problem."""
        answers: dict[str, int | str] = {}
        for task_id in dict.fromkeys(ids):
            try:
                answers[task_id] = self.steer(user, task_id, action, now, **given).version
            except Refused as refused:
                answers[task_id] = refused.name
        return answers

    def _pause(self, task: Task, now: datetime) -> None:
        if not task.is_leased:
            self.move(task, Verb.PAUSE, Status.PAUSED, now)
        elif not task.cancel_requested:
            task.cancel_requested = True
            task.version += 1
            task.updated_at = now

    def _check_again(self, task: Task, verb: Verb, now: datetime) -> None:
        if self.jobs[task.job_name].deleted:
            raise TRANSITION
        if not task.is_open and self.holders_of_key(task, task.unique_key):
            raise TRANSITION
        allowed(task, verb, Status.PENDING)
        if task.deadline is not None and task.deadline <= now:
            raise TRANSITION

    def _resume(self, task: Task, now: datetime, *, is_undo: bool) -> None:
        if task.status is Status.FAILED:
            task.retry_count = task.requeue_count = 0
        is_asleep = task.reason is Reason.SUSPENDED and task.scheduled_at > now
        self.count_anew(task)
        self.move(task, Verb.RESUME, self.ready(task, now), now)
        task.goes_first = task.goes_first or not is_undo
        self._reopen(task)
        if is_asleep and task.status is Status.SCHEDULED:
            task.reason = Reason.SUSPENDED

    def _reopen(self, task: Task) -> None:
        task.completed_at = task.error = task.reason = None
        task.cancel_requested = task.settled = False
        self.note_news(task)

    def _rerun(self, task: Task, now: datetime, *, is_undo: bool) -> None:
        self.count_anew(task)
        self.move(task, Verb.RERUN, Status.BLOCKED if task.waits_for else Status.PENDING, now)
        is_anew = task.run_id is not None and not is_undo
        if is_anew or task.scheduled_at > now:
            task.scheduled_at = now
        if is_anew:
            task.goes_first = False
        task.retry_count = task.requeue_count = 0
        task.checkpoint = task.result = task.usage = task.usage_before = None
        self._reopen(task)

    def _resolve(self, task: Task, to: Status, given: Given, now: datetime) -> None:
        allowed(task, Verb.RESOLVE, to)
        task.run_id = 0 if task.run_id is None else task.run_id + 1
        task.claimed_at = task.started_at = now
        task.worker_id = None
        reason = {Status.FAILED: Reason.ERROR, Status.CANCELLED: Reason.CANCELLED}.get(to)
        self.end_run(task, Outcome(to.value), reason, now, error=given.get("error"))
        self.finish(task, Verb.RESOLVE, to, now)
        task.result, task.error, task.reason = given.get("result"), given.get("error"), reason
        task.settled, task.cancel_requested = True, False

    def edit(self, user: User, task_id: str, changes: Given, now: datetime, *, if_version: int | None = None) -> Task:
        """Change a task that does not run."""
        task = self.steered(user, task_id, if_version)
        if task.status not in {Status.SCHEDULED, Status.BLOCKED, Status.PENDING}:
            raise TRANSITION
        at = changes.get("scheduled_at")
        if changes.get("delay") is not None:
            at = now + timedelta(seconds=changes["delay"])
        deadline = changes.get("deadline", task.deadline)
        is_timed = changes.keys() & {"deadline", "delay", "scheduled_at"}
        if is_timed and deadline is not None and deadline <= (at or task.scheduled_at):
            raise INVALID
        key = changes.get("unique_key")
        if key is not None and self.holders_of_key(task, key):
            raise CONFLICT
        self._count_anew(task, changes)
        self._change(task, changes)
        if at is not None:
            self._reschedule(task, at, now)
            self.move_wait(task, at, now)
        task.version += 1
        task.updated_at = now
        self.take_policy(task, changes.get("on_dependency_failure"), now)
        return task

    def edit_many(
        self, user: User, edits: Sequence[tuple[str, Given, int | None]], now: datetime
    ) -> dict[str, int | str]:
        """Edit each task by itself, given its changes and the version they are for: its new one, or the problem."""
        answers: dict[str, int | str] = {}
        for task_id, changes, if_version in edits:
            try:
                answers[task_id] = self.edit(user, task_id, changes, now, if_version=if_version).version
            except Refused as refused:
                answers[task_id] = refused.name
        return answers

    def _count_anew(self, task: Task, changes: Given) -> None:
        """What it counts against follows its limits and its payload; only what is new of it is looked at."""
        if changes.keys() & {"limits", "payload"}:
            own, payload = changes.get("limits", task.limits), changes.get("payload", task.payload)
            counts = self.counts_of(self.jobs[task.job_name], task.room_id, own, payload)
            if counts != task.counts:
                self.check_counts(counts)
            task.counts = counts

    @staticmethod
    def _change(task: Task, changes: Given) -> None:
        was_as_lease = task.heartbeat_increment == task.lease_seconds
        for name in changes.keys() - {"delay", "scheduled_at", "heartbeat_increment", "on_dependency_failure"}:
            setattr(task, name, changes[name])
        increment = changes.get("heartbeat_increment")
        if increment is not None:
            task.heartbeat_increment = increment
        elif was_as_lease or "heartbeat_increment" in changes:
            task.heartbeat_increment = task.lease_seconds

    def _reschedule(self, task: Task, at: datetime, now: datetime) -> None:
        task.scheduled_at = at
        if task.status is Status.BLOCKED:
            return
        to = Status.SCHEDULED if at > now else Status.PENDING
        if to is not task.status:
            allowed(task, Verb.DEFER if to is Status.SCHEDULED else Verb.PROMOTE, to)
            task.status = to
        task.next_retry_at = at if task.next_retry_at is not None and to is Status.SCHEDULED else None
        if to is Status.PENDING:
            self.wake(task)

    def holders_of_key(self, task: Task, key: str | None) -> list[Task]:
        """Return the other open tasks of the job that hold the unique key: one at most."""
        if key is None:
            return []
        others = [one for one in self.tasks.values() if one is not task and one.is_open]
        return [one for one in others if (one.job_name, one.unique_key) == (task.job_name, key)]

    # An older client's update of a status

    def patch_status(
        self, user: User, task_id: str, status: Status, said: dict[str, Any], now: datetime, run_id: int | None = None
    ) -> Task:
        """Take a report without a run, or a cancel; with `run_id`, or a run's credential, it is fenced."""
        if (task := self.tasks.get(task_id)) is None:
            raise NO_TASK
        if status in {Status.SCHEDULED, Status.PENDING, Status.CLAIMED}:
            raise TRANSITION
        owns = self.speaks_for(user, task.worker_id, task, task.run_id)
        is_current = task.is_leased and run_id in {None, task.run_id}
        if status is Status.CANCELLED:
            if run_id is not None and not is_current:
                raise STALE
            self._check_cancel(user, task, run_id, owns=owns)
            self.cancel(task, now)
            return task
        run_id = user.run[1] if run_id is None and user.run is not None else run_id
        if run_id is not None and not (task.is_leased and run_id == task.run_id):
            raise STALE
        if not task.is_leased:
            raise TRANSITION
        if not owns:
            raise STALE if run_id is None and self._had(user, task) else FORBIDDEN
        allowed(task, REPORTED[status], status)
        was_unstarted = task.status is Status.CLAIMED
        self.take(task, said, now)
        if status is Status.RUNNING and was_unstarted:
            task.unfenced = run_id is None
        return task

    def _check_cancel(self, user: User, task: Task, run_id: int | None, *, owns: bool) -> None:
        try:
            self.check_control(user, task)
        except Refused:
            is_lost = not (owns and task.is_leased) and run_id is None and (owns or self._had(user, task))
            raise (STALE if is_lost else FORBIDDEN) from None

    def _had(self, user: User, task: Task) -> bool:
        """Whether a worker of the user had a run of the task, as far as it is known: it is there still."""
        owners = {self.workers[run.worker_id].owner for run in self.runs_ended(task) if run.worker_id in self.workers}
        return user.name in owners

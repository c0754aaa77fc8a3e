"""The verbs by which people steer tasks: cancel, pause, resume, resolve and rerun."""

from dataclasses import dataclass
from datetime import datetime

from treadle.wire.ids import TaskId
from treadle.wire.status import Reason, Status
from treadle.wire.transitions import Verb
from treadle_server.access.checks import check_control
from treadle_server.access.principal import Principal
from treadle_server.domain import life
from treadle_server.domain.dependencies import Verdict, verdict
from treadle_server.domain.encryption import check_words
from treadle_server.domain.states import advance
from treadle_server.domain.tasks import Hold, Run, Task
from treadle_server.engine.commands.base import OneRow, get_task
from treadle_server.engine.commands.steps import clear_steps
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import InvalidTaskTransition, ValidationFailed
from treadle_server.store.transaction.dependencies import EdgeStatus


def keep_hold(work: UnitOfWork, task: Task, taken_until: datetime | None, *, slot_only: bool = False) -> bool:
    """Let the run's code keep its target and slot until it has stopped or its lease ends; return whether it does.

    `slot_only` lets the task's next run begin meanwhile, unless the task has a target. A lease may only seem to have
    ended because the clock was just set; so the hold is added anyway, and the sweeper, which knows, ends it.
    """
    if taken_until is None or task.worker_id is None or task.unfenced:
        return False
    key = (task.seq, task.run_id, task.worker_id)
    is_slot = slot_only and task.target_num is None
    is_limited = task.limit_key is not None
    seconds = task.lease_seconds
    work.add_hold(Hold(*key, task.target_num, task.weight, taken_until, task.id, seconds, is_slot, is_limited))
    return True


def end_run(work: UnitOfWork, task: Task, run: Run, until: datetime | None) -> None:
    """Note that the task's run has ended; its code keeps its slot up to `until`, or has stopped if that is None."""
    work.add_run(task, run, code_ended=not keep_hold(work, task, until, slot_only=True))
    work.changed(task)
    if task.completed_at is not None:
        work.maybe_orphan(task.job_num)


def cancel_task(work: UnitOfWork, task: Task, reason: Reason = Reason.CANCELLED) -> Task:
    """Cancel the task at once; running code keeps a hold until it has stopped. Raises `InvalidTaskTransition`."""
    advance(task.status, Verb.CANCEL, Status.CANCELLED)
    until = task.taken_until
    work.open(task)
    cut_off(work, task, life.cancel(task, work.now, reason), until)
    return task


def expire_task(work: UnitOfWork, task: Task) -> None:
    """Fail a task whose deadline has passed; running code keeps a hold until it has stopped."""
    until = task.taken_until
    work.open(task)
    cut_off(work, task, life.miss_deadline(task, work.now), until)


def cut_off(work: UnitOfWork, task: Task, run: Run | None, until: datetime | None) -> None:
    """Note that the task has ended, with its run if it had one; the run's code keeps a hold until it has stopped."""
    if run is not None:
        work.add_run(task, run, code_ended=False)
        keep_hold(work, task, until)
    work.changed(task)
    work.maybe_orphan(task.job_num)


def count_unmet(work: UnitOfWork, task: Task) -> EdgeStatus | None:
    """Count the task's unmet dependencies again, since these may run again too; the task must be open for a change.

    Return a dependency because of which it must never run by its policy, or None if there is none.
    """
    known = work.dependencies
    if task.unmet is None:
        return None
    task.unmet = 0
    failed: EdgeStatus | None = None
    for edge in known.edges_of(task.seq):
        other = work.tasks.get(edge.needs_id)
        status = edge.status if other is None else other.status
        decision = verdict(task.on_dependency_failure, status)
        is_met = decision is Verdict.MET
        key = (task.seq, edge.needs_seq)
        if is_met is not known.met.get(key, edge.met):
            known.met[key] = is_met
        task.unmet += not is_met
        if decision is Verdict.FAILED and failed is None:
            failed = edge._replace(status=status)
    return failed


_AGAIN = frozenset({"resume", "rerun"})
"""Verbs after which a task waits for its dependencies again."""


@dataclass(slots=True, kw_only=True)
class Steer(OneRow):
    """Applies one verb to one task."""

    principal: Principal
    task_id: TaskId
    action: str
    if_version: int | None = None
    to: Status | None = None
    """For resolve: completed, failed or cancelled."""
    result: str | None = None
    error: str | None = None
    from_step: str | None = None
    """For rerun: the first step that is not kept."""

    def reads(self, reads: ReadSet) -> None:
        """Read the task, and the status of its dependencies."""
        reads.tasks.add(self.task_id)
        reads.jobs_of.add(self.task_id)
        if self.from_step is not None:
            reads.steps.want_step(self.task_id, self.from_step, 0, receives=False)
        if self.action in _AGAIN:
            reads.edges_of.add(self.task_id)

    def apply(self, work: UnitOfWork) -> Task:
        """Return the task after the verb.

        Raises `TaskNotFound`, `Forbidden`, `TaskConflict` (it has changed since `if_version`), `InvalidTaskTransition`,
        or `ValidationFailed` if it keeps no step `from_step`, if an encrypted task is resolved in plain text, and for
        an unknown action.
        """
        task = get_task(work, self.task_id)
        check_control(self.principal, task)
        life.check_version(task, self.if_version)
        match self.action:
            case "cancel":
                return cancel_task(work, task)
            case "pause":
                self._pause(work, task)
            case "resume" | "rerun":
                self._again(work, task)
            case "resolve":
                self._resolve(work, task)
            case _:
                raise ValidationFailed(f"{self.action!r} is not an action: use cancel, pause, resume, resolve or rerun")
        return task

    def _pause(self, work: UnitOfWork, task: Task) -> None:
        if not task.is_leased:
            advance(task.status, Verb.PAUSE, Status.PAUSED)
        elif task.cancel_requested:
            return
        work.open(task)
        life.pause(task, work.now)
        work.changed(task)

    def _again(self, work: UnitOfWork, task: Task) -> None:
        job = work.job_of(task)
        if job.deleted_at is not None:
            raise InvalidTaskTransition(f"{job.full_name} has been deleted: register it again before its tasks can run")
        if task.unique_key is not None and task.completed_at is not None:
            other = work.unique.get((task.job_num, task.unique_key))
            if other is not None and other.completed_at is None and other.id != task.id:
                raise InvalidTaskTransition(f"task {other.id} now holds the unique key {task.unique_key!r}")
        verb, function = (Verb.RESUME, life.resume) if self.action == "resume" else (Verb.RERUN, life.rerun)
        advance(task.status, verb, Status.PENDING)
        life.check_deadline(task, work.now)
        # A rerun only undoes a cancel: a task that has completed or failed runs again from its start.
        undoes = Status.CANCELLED if self.action == "rerun" else task.status
        is_undo = self.if_version is not None and self.from_step is None and task.status is undoes
        if self.action == "rerun" and not is_undo:
            clear_steps(work, task, self.from_step)
        before = work.open(task)
        count_unmet(work, before)
        if (ended_run := function(before, work.now, is_undo=is_undo)) is not None:
            work.keep_run(ended_run)
        task.blocked = task.stands_in_line
        if task.unique_key is not None:
            # The same request may steer other tasks that had this key.
            work.unique[task.job_num, task.unique_key] = task
        work.changed(task)

    def _resolve(self, work: UnitOfWork, task: Task) -> None:
        to = self.to or Status.COMPLETED
        advance(task.status, Verb.RESOLVE, to)
        if task.is_encrypted:
            check_words({"result": self.result}, {"error": self.error})
        work.open(task)
        end_run(work, task, life.resolve(task, to, self.result, self.error, work.now), None)

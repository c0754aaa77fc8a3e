"""What each verb does to a task: pure functions that change a `Task` and return the run that ended, if any.

Every verb raises `InvalidTaskTransition` if it does not apply to the task's status, before it changes anything: a
refused verb leaves the task unchanged. Verbs that end a run need a task whose run is open (`check_owner`).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from treadle.wire.ids import WorkerId
from treadle.wire.status import REQUEUED, RETRIED, Outcome, Reason, Status
from treadle.wire.transitions import Verb
from treadle_server.domain.dependencies import TAKE_BACK, UNTOLD
from treadle_server.domain.last_run import keep_last_run, last_run
from treadle_server.domain.retry import Draw, backoff_of, requeue_delay
from treadle_server.domain.schedules import Schedule
from treadle_server.domain.states import advance
from treadle_server.domain.tasks import Run, Task
from treadle_server.domain.usage import note_usage, usage_of_run
from treadle_server.errors import InvalidTaskTransition, StaleRun, TaskConflict


@dataclass(slots=True)
class Ending:
    """How a run ended, according to its worker or the server."""

    outcome: Outcome
    reason: Reason | None = None
    error: str | None = None
    traceback: str | None = None
    usage: float | None = None
    digest: bytes | None = None


def _move(task: Task, verb: Verb, to: Status, now: datetime) -> None:
    task.status = advance(task.status, verb, to)
    task.version += 1
    task.updated_at = now


def check_version(one: Task | Schedule, expected: int | None) -> None:
    """Raise `TaskConflict` if a task or schedule has changed since version `expected`; None accepts any version."""
    if expected is not None and one.version != expected:
        raise TaskConflict(
            f"the {type(one).__name__.lower()} is at version {one.version}, not {expected}: it has changed since, so"
            " read it again"
        )


def check_owner(task: Task, run_id: int | None, worker_id: WorkerId | None = None) -> None:
    """Raise `StaleRun` unless run `run_id` of the task is open and, if `worker_id` is given, that worker's.

    A `run_id` of None comes from an older client, which can't tell its run from the next.
    """
    if not task.is_leased:
        raise StaleRun(f"the task is {task.status} and has no open run; stop the code")
    if run_id is not None and task.run_id != run_id:
        raise StaleRun(f"run {run_id} has ended, and the task is at run {task.run_id}: stop the code")
    if worker_id is not None and task.worker_id != worker_id:
        raise StaleRun(f"run {task.run_id} belongs to worker {task.worker_id}: stop the code")


def end_run(task: Task, ending: Ending, now: datetime) -> Run:
    """End the open run of a leased task and return its record; the caller changes the task's status."""
    assert task.claimed_at is not None
    note_usage(task, ending.usage)
    run = Run(
        task_seq=task.seq,
        run_id=task.run_id,
        status=ending.outcome,
        reason=ending.reason,
        error=ending.error,
        traceback=ending.traceback,
        worker_id=task.worker_id,
        usage=ending.usage if ending.usage is not None else usage_of_run(task),
        claimed_at=task.claimed_at,
        started_at=task.started_at,
        ended_at=now,
        digest=ending.digest,
    )
    task.taken_until = None
    task.progress = None
    if ending.outcome is not Outcome.COMPLETED:
        # In case the task runs again; a completed task only does so from the start.
        task.usage_before = task.usage
        task.goes_first = True
    return run


def claim(task: Task, worker_id: WorkerId, now: datetime) -> None:
    """Open the next run for `worker_id`, and clear what the last one has left (L3). Raises `InvalidTaskTransition`."""
    _move(task, Verb.CLAIM, Status.CLAIMED, now)
    task.run_id += 1
    task.worker_id = worker_id
    task.claimed_at = now
    task.started_at = None
    task.taken_until = now + task.lease
    task.cancel_requested = False
    task.unfenced = False
    task.next_retry_at = None


def start(task: Task, run_id: int | None, now: datetime) -> None:
    """Note that the worker has started the code. Raises `StaleRun` or `InvalidTaskTransition`."""
    check_owner(task, run_id)
    _move(task, Verb.START, Status.RUNNING, now)
    task.started_at = now
    task.unfenced = run_id is None


def renew(task: Task, now: datetime, usage: float | None = None) -> None:
    """Extend the lease to max(current, now + increment); an increment of 0 leaves it unchanged (E4)."""
    note_usage(task, usage)
    assert task.taken_until is not None
    if task.heartbeat_increment > 0:
        task.taken_until = max(task.taken_until, now + timedelta(seconds=task.heartbeat_increment))


def complete(task: Task, result: str | None, ending: Ending, now: datetime) -> Run:
    """Complete the task with `result`; it holds the run if it can. Raises `InvalidTaskTransition` unless running."""
    if task.status is not Status.RUNNING:
        advance(task.status, Verb.COMPLETE, Status.COMPLETED)
    run = end_run(task, ending, now)
    _finish(task, Verb.COMPLETE, Status.COMPLETED, now)
    task.result = result
    task.error = None
    task.reason = None
    task.cancel_requested = False
    keep_last_run(task, run)
    return run


def _finish(task: Task, verb: Verb, to: Status, now: datetime) -> None:
    _move(task, verb, to, now)
    task.completed_at = now
    task.next_retry_at = None


def _wait(task: Task, verb: Verb, delay: timedelta, now: datetime) -> None:
    """Put the task back into its queue, at once or after a delay."""
    if delay > timedelta(0):
        _move(task, verb, Status.SCHEDULED, now)
        task.due_at = task.next_retry_at = now + delay
    else:
        _move(task, verb, Status.PENDING, now)


def fail(
    task: Task,
    ending: Ending,
    now: datetime,
    draw: Draw,
    retry_after: float | None = None,
    *,
    requeue_after: timedelta | None = None,
    is_final: bool = False,
) -> Run:
    """End the run for `ending.reason`; retry, requeue, pause or fail the task according to its budgets and flags.

    `retry_after` (seconds) replaces the back-off of a retry, and `requeue_after` that of a requeue. If it `is_final`,
    the task is not tried again, whatever its budgets. Raises `InvalidTaskTransition` if no run of the task is open.
    """
    reason = ending.reason
    assert reason is not None
    if not task.is_leased:
        raise InvalidTaskTransition(f"fail: the task is {task.status} and has no open run")
    run = end_run(task, ending, now)
    task.error = ending.error
    task.reason = reason
    if reason is Reason.BUDGET_EXCEEDED:
        _finish(task, Verb.FAIL, Status.FAILED, now)
        task.cancel_requested = False
    elif task.cancel_requested:
        _interrupt(task, now)
    elif is_final:
        _finish(task, Verb.FAIL, Status.FAILED, now)
    elif reason in RETRIED and task.retry_count < task.max_retries and not (task.unfenced and reason is Reason.TIMEOUT):
        delay = backoff_of(task, task.retry_count, draw) if retry_after is None else timedelta(seconds=retry_after)
        task.retry_count += 1
        _wait(task, Verb.RETRY, delay, now)
    elif reason in REQUEUED and task.requeue_count < task.max_requeues and not task.unfenced:
        delay = requeue_delay(task.requeue_count) if requeue_after is None else requeue_after
        task.requeue_count += 1
        _wait(task, Verb.REQUEUE, delay, now)
    else:
        _finish(task, Verb.FAIL, Status.FAILED, now)
    return run


def hand_back(task: Task, ending: Ending, now: datetime) -> Run:
    """Hand back a run that was never started: it costs no budget, and the task keeps its place.

    Raises `InvalidTaskTransition` unless the task is claimed.
    """
    if task.status is not Status.CLAIMED:
        raise InvalidTaskTransition(f"return: the task is {task.status}; only a claimed one can be handed back")
    run = end_run(task, ending, now)
    if task.cancel_requested:
        _interrupt(task, now)
    else:
        _move(task, Verb.REQUEUE, Status.PENDING, now)
    return run


def _interrupt(task: Task, now: datetime) -> None:
    _move(task, Verb.INTERRUPT, Status.PAUSED, now)
    task.cancel_requested = False
    task.reason = Reason.INTERRUPTED
    task.error = task.error or "interrupted by user"


def confirm_pause(task: Task, checkpoint: str | None, ending: Ending, now: datetime) -> Run:
    """Pause the task after its worker stopped the open run's code; a `checkpoint` of None keeps the task's own."""
    run = end_run(task, ending, now)
    if checkpoint is not None:
        task.checkpoint = checkpoint
    task.error = ending.error
    _interrupt(task, now)
    return run


def suspend(task: Task, seconds: float, ending: Ending, now: datetime) -> Run:
    """End the open run, whose code sleeps or waits for a message, and make the task due after `seconds`.

    This costs no budget. If a pause was requested, the task is paused, and once resumed it is due at the same time.
    """
    run = end_run(task, ending, now)
    task.error = None
    if task.cancel_requested:
        task.due_at = now + timedelta(seconds=seconds)
        _interrupt(task, now)
        # The same as for a task that is paused while asleep: after a resume it goes on sleeping.
        task.reason = Reason.SUSPENDED
        return run
    _wait(task, Verb.SUSPEND, timedelta(seconds=seconds), now)
    # This is no retry; the reason shows that the task is asleep.
    task.next_retry_at = None
    task.reason = Reason.SUSPENDED if task.status is Status.SCHEDULED else None
    return run


def pause(task: Task, now: datetime) -> None:
    """Pause a waiting task at once; ask the worker of a running one to stop (`cancel_requested`).

    Raises `InvalidTaskTransition` if the task is paused or has ended.
    """
    if task.is_leased:
        if not task.cancel_requested:
            task.cancel_requested = True
            task.version += 1
            task.updated_at = now
        return
    _move(task, Verb.PAUSE, Status.PAUSED, now)


def cancel(task: Task, now: datetime, reason: Reason = Reason.CANCELLED) -> Run | None:
    """Cancel an open task at once; return the record of its open run, if it has one.

    Raises `InvalidTaskTransition` if the task has ended.
    """
    advance(task.status, Verb.CANCEL, Status.CANCELLED)
    run = end_run(task, Ending(Outcome.CANCELLED, reason), now) if task.is_leased else None
    _finish(task, Verb.CANCEL, Status.CANCELLED, now)
    task.reason = reason
    task.cancel_requested = False
    return run


def miss_deadline(task: Task, now: datetime) -> Run | None:
    """Fail a task that is still open past its deadline; return the record of its open run, if it has one.

    Raises `InvalidTaskTransition` if the task has ended.
    """
    error = "the deadline has passed"
    ending = Ending(Outcome.EXCEPTION, Reason.DEADLINE_EXCEEDED, error)
    advance(task.status, Verb.EXPIRE, Status.FAILED)
    run = end_run(task, ending, now) if task.is_leased else None
    _finish(task, Verb.EXPIRE, Status.FAILED, now)
    task.reason = Reason.DEADLINE_EXCEEDED
    task.error = error
    task.cancel_requested = False
    return run


def promote(task: Task, now: datetime) -> None:
    """Make a task pending that is due, or whose message has come. Raises `InvalidTaskTransition` unless scheduled."""
    _move(task, Verb.PROMOTE, Status.PENDING, now)
    wake(task)


def wake(task: Task) -> None:
    """Forget that the task was asleep."""
    if task.reason is Reason.SUSPENDED:
        task.reason = None


def unblock(task: Task, now: datetime) -> None:
    """Unblock a task whose last dependency is met: it is due now, or at its own time if that is later.

    Raises `InvalidTaskTransition` unless it is blocked and has no unmet dependency.
    """
    _move(task, Verb.UNBLOCK, _ready(task, now), now)
    task.due_at = max(task.due_at, now)


def _ready(task: Task, now: datetime) -> Status:
    """Return the status of a task that is to run: it waits for other tasks, then for its time, then in its queue."""
    if task.unmet:
        return Status.BLOCKED
    return Status.SCHEDULED if task.due_at > now else Status.PENDING


def check_deadline(task: Task, now: datetime) -> None:
    """Raise `InvalidTaskTransition` if the task's deadline has passed, since it could never run."""
    if task.deadline is not None and task.deadline <= now:
        raise InvalidTaskTransition("the task's deadline has passed: submit a new one")


def resume(task: Task, now: datetime, *, is_undo: bool = False) -> None:
    """Let a paused or failed task continue once it is due and waits for nothing; its checkpoint and place are kept.

    A failed task gets new budgets of retries and requeues. The task goes first among those of its target, whether it
    had run or not; an undo leaves that unchanged. Raises `InvalidTaskTransition`, also if its deadline has passed.
    """
    to = _ready(task, now)
    advance(task.status, Verb.RESUME, to)
    check_deadline(task, now)
    if task.status is Status.FAILED:
        task.retry_count = task.requeue_count = 0
    is_asleep = task.reason is Reason.SUSPENDED and to is Status.SCHEDULED
    _move(task, Verb.RESUME, to, now)
    task.goes_first = task.goes_first or not is_undo
    _reopen(task)
    if is_asleep:
        task.reason = Reason.SUSPENDED


def _reopen(task: Task) -> None:
    task.completed_at = None
    task.error = None
    task.reason = None
    task.cancel_requested = False
    task.settled = False
    if task.telling is not None:
        task.telling = TAKE_BACK


def rerun(task: Task, now: datetime, *, is_undo: bool = False) -> Run | None:
    """Run an ended task from the start, without checkpoint and with fresh budgets; its history of runs is kept.

    A task that had run goes to the back of its queue; one that had not, or that an undo brings back, gets its place
    again. Returns the run that the task itself has held, which now needs a record. Raises `InvalidTaskTransition`, also
    if the task's deadline has passed.
    """
    to = Status.BLOCKED if task.unmet else Status.PENDING
    advance(task.status, Verb.RERUN, to)
    check_deadline(task, now)
    held = last_run(task)
    _move(task, Verb.RERUN, to, now)
    is_anew = task.has_run and not is_undo
    if is_anew or task.due_at > now:
        task.due_at = now
    if is_anew:
        task.goes_first = False
    task.retry_count = task.requeue_count = 0
    task.checkpoint = task.result = task.usage = task.usage_before = task.digest = None
    _reopen(task)
    return held


def resolve(task: Task, to: Status, result: str | None, error: str | None, now: datetime) -> Run:
    """Settle a paused or failed task by hand: open a run and end it at once. `result` is JSON text.

    Raises `InvalidTaskTransition` if the task has another status, or `to` is not a terminal one.
    """
    advance(task.status, Verb.RESOLVE, to)
    task.run_id += 1
    task.claimed_at = task.started_at = now
    task.worker_id = None
    outcome = Outcome(to.value)
    reason = {Status.FAILED: Reason.ERROR, Status.CANCELLED: Reason.CANCELLED}.get(to)
    run = end_run(task, Ending(outcome, reason, error), now)
    _finish(task, Verb.RESOLVE, to, now)
    task.result = result
    task.error = error
    task.reason = reason
    task.settled = True
    if task.telling is not None:
        task.telling = UNTOLD
    task.cancel_requested = False
    return run

"""Keeps steps, lets tasks sleep and wait for messages, and delivers messages. A suspended task waits in its last step.

That step is a sleep, or a receive without a message. A message fills it as long as no later run has begun; a later run
finds it as it is then, and takes a receive without a message to have timed out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from treadle.wire.amounts import counted
from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.access.checks import check_send
from treadle_server.access.principal import Principal
from treadle_server.domain import life
from treadle_server.domain.encryption import check_words
from treadle_server.domain.life import Ending
from treadle_server.domain.steps import Message, Step, check_message, check_repeated, check_step, same_json
from treadle_server.domain.tasks import Run, Task
from treadle_server.engine.commands.base import OneRow, get_task
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import InvalidTaskTransition, TaskConflict, ValidationFailed


@dataclass(slots=True, kw_only=True)
class StepReport:
    """The part of a report that is about a step."""

    name: str
    occurrence: int = 0
    function: str | None = None
    seconds: float | None = None
    """How long the function took, or how long a wait lasts at most."""
    receives: bool = False


def keep_step(work: UnitOfWork, task: Task, report: StepReport, result: str | None) -> None:
    """Keep the result of a step's function, and renew the lease of its run; a repetition only renews.

    Raises `TaskConflict` if the step is kept with another result, and `ValidationFailed` if it is too large.
    """
    step = _step(work, task, report, kind="call", result=result, seconds=report.seconds)
    kept = work.steps.kept.get(step.key)
    if kept is not None:
        check_repeated(kept, step)
    else:
        check_step(task, result)
    work.open(task)
    if kept is None:
        _add(work, task, step)
    life.renew(task, work.now)
    work.touched(task)


def take_message(work: UnitOfWork, task: Task, report: StepReport) -> None:
    """Let a step receive the oldest message of its name, if one waits, and renew the lease of its run.

    Raises `ValidationFailed` if the task has too many steps.
    """
    step = _step(work, task, report, kind="receive")
    message = None if step.key in work.steps.kept else work.steps.next_message(task.seq, report.name)
    if message is not None:
        check_step(task, None)
    work.open(task)
    if message is not None:
        _receive(work, step, message)
        _add(work, task, step)
    life.renew(task, work.now)
    work.touched(task)


def check_suspension(work: UnitOfWork, task: Task, report: StepReport) -> None:
    """Check that the open run may wait in this step. Raises `TaskConflict` if it is kept, or `ValidationFailed`."""
    step = _step(work, task, report, kind="receive" if report.receives else "sleep")
    if (kept := work.steps.kept.get(step.key)) is not None:
        raise TaskConflict(
            f"step {kept.name!r}, number {kept.occurrence} of that name, was kept in run {kept.run_id}: read the kept"
            " steps before waiting in one"
        )
    check_step(task, None)


def suspend(work: UnitOfWork, task: Task, report: StepReport, ending: Ending) -> Run:
    """End the run and let the task wait, after `check_suspension`; if its message is there, it continues at once."""
    seconds = report.seconds or 0.0
    until = work.now + timedelta(seconds=seconds)
    step = _step(work, task, report, kind="receive" if report.receives else "sleep", until=until)
    message = work.steps.next_message(task.seq, report.name) if report.receives else None
    if message is not None:
        _receive(work, step, message)
        seconds = 0.0
    _add(work, task, step)
    return life.suspend(task, seconds, ending, work.now)


def clear_steps(work: UnitOfWork, task: Task, from_step: str | None) -> None:
    """Delete the steps of a task that runs again: all, with all messages, or those from `from_step` on.

    Must be called before the task is changed. Raises `ValidationFailed` if it keeps no step of that name.
    """
    if from_step is None:
        work.steps.clear(task.seq, 0, keeps_messages=False)
        first = 0
    else:
        kept = work.steps.kept.get((task.seq, from_step, 0))
        if kept is None:
            raise ValidationFailed(f"from_step: the task has no step {from_step!r}: {_kept_by(task)}")
        first = kept.number
        work.steps.clear(task.seq, first, keeps_messages=True)
    work.open(task)
    task.steps = first


def _kept_by(task: Task) -> str:
    if not task.steps:
        return "it keeps none; rerun it from its start"
    return (
        f"`treadle task {task.id}`, or GET /v1/tasks/{task.id}/steps, names the {counted(task.steps, 'step')} it keeps"
    )


@dataclass(slots=True, kw_only=True)
class SendMessage(OneRow):
    """Sends a message to a task, which continues if it waits for the message."""

    principal: Principal
    task_id: TaskId
    name: str
    id: str
    data: str | None

    def reads(self, reads: ReadSet) -> None:
        """Read the task, what it waits for, and a message of that name and id."""
        reads.tasks.add(self.task_id)
        reads.steps.sends.add((self.task_id, self.name, self.id))

    def apply(self, work: UnitOfWork) -> tuple[Message, bool]:
        """Return the message, and whether it is new; a repetition returns the first one.

        Raises `TaskNotFound`, `Forbidden`, `TaskConflict` (the id was used with other data), `InvalidTaskTransition`
        (the task has ended), `ValidationFailed` (it is too large or not encrypted), or `TooManyRequests` (too many
        wait).
        """
        task = get_task(work, self.task_id)
        check_send(self.principal, task)
        known = work.steps.messages.get((task.seq, self.name, self.id))
        if known is not None:
            if not same_json(known.data, self.data):
                raise TaskConflict(f"message {self.id!r} named {self.name!r} was already sent with other data")
            return known, False
        if task.completed_at is not None:
            raise InvalidTaskTransition(f"send: the task is {task.status} and no longer receives messages")
        if task.is_encrypted:
            check_words({"data": self.data}, {})
        waiting, number = work.steps.count(task.seq)
        step = work.steps.last.get(task.seq)
        is_awaited = (
            step is not None
            and (step.kind, step.name) == ("receive", self.name)
            and _waits(task, step, work.steps.worked)
        )
        # An awaited message never counts as one too many: else others that the task never receives could block it.
        check_message(self.data, 0 if is_awaited else waiting)
        message = Message(task.seq, number, self.name, self.id, self.data, self.principal.user, work.now)
        work.steps.add_message(message)
        if step is not None and is_awaited:
            _receive(work, step, message)
            work.steps.change(step)
            _wake(work, task)
        work.touched(task)
        return message, True


def wait_until(work: UnitOfWork, task: Task, due_at: datetime) -> None:
    """Move the end of a task's wait in its last step, if it waits in one, to `due_at`, or to now if that is past."""
    step = work.steps.last.get(task.seq)
    if step is not None and _waits(task, step, work.steps.worked):
        step.until = max(due_at, work.now)
        work.steps.change(step)


def _step(work: UnitOfWork, task: Task, report: StepReport, **more: object) -> Step:
    values: dict[str, object] = {"function": report.function, "result": None, **more}
    return Step(
        task_seq=task.seq,
        number=task.steps,
        name=report.name,
        occurrence=report.occurrence,
        run_id=task.run_id,
        at=work.now,
        **values,  # type: ignore[arg-type]
    )


def _add(work: UnitOfWork, task: Task, step: Step) -> None:
    work.steps.add_step(step)
    task.steps += 1


def _receive(work: UnitOfWork, step: Step, message: Message) -> None:
    work.steps.take(message, step)
    step.result = message.data
    step.received_at = work.now


def _waits(task: Task, step: Step, worked: Mapping[int, int]) -> bool:
    """Return whether the task waits in this step, its last one: it sleeps, or has no message yet."""
    is_empty = step.kind != "call" and step.received_at is None
    # Runs that a resolve opened have no worker, so no code has found the step empty in them. If the resolve was in the
    # same batch as the run that waits, `worked` doesn't know that run, which is then the one before.
    last = {task.run_id} if task.worker_id is not None else {task.run_id - 1, worked.get(task.seq)}
    return is_empty and step.run_id in last and not task.is_leased


def _wake(work: UnitOfWork, task: Task) -> None:
    work.open(task)
    task.due_at = min(task.due_at, work.now)
    if task.status is Status.SCHEDULED:
        life.promote(task, work.now)
        work.changed(task)

"""Workers' reports about the runs that they hold; each report is fenced by (task, run)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from treadle.wire.amounts import amount
from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import REPORTABLE, Outcome, Reason, Status
from treadle.wire.transitions import Verb
from treadle_server.access.checks import speaks_for
from treadle_server.access.principal import Principal
from treadle_server.access.rights import claim_task
from treadle_server.domain import life
from treadle_server.domain.life import Ending
from treadle_server.domain.states import advance
from treadle_server.domain.steps import Step
from treadle_server.domain.tasks import Run, Task
from treadle_server.domain.usage import is_over_budget, note_usage
from treadle_server.engine.commands.base import OneRow, get_task
from treadle_server.engine.commands.run_report import RunReport
from treadle_server.engine.commands.steering import cut_off, end_run
from treadle_server.engine.commands.steps import StepReport, check_suspension, keep_step, suspend, take_message
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import Forbidden, InvalidTaskTransition, StaleRun, TreadleError, ValidationFailed

ENDINGS = frozenset({"completed", "failed", "exception", "paused", "suspended", "returned"})
"""The kinds of reports that end the run."""


@dataclass(slots=True, kw_only=True)
class ReportRun(OneRow):
    """One report about one run."""

    principal: Principal
    worker_id: WorkerId | None
    task_id: TaskId
    run_id: int | None
    report: RunReport

    def reads(self, reads: ReadSet) -> None:
        """Read the task, and the run's record if it has ended."""
        reads.report(self.task_id, self.run_id)
        if (step := self.report.step) is not None:
            reads.steps.want_step(self.task_id, step.name, step.occurrence, receives=step.receives)

    def apply(self, work: UnitOfWork) -> Task:
        """Return the task after the report.

        Raises `TaskNotFound`, `StaleRun` (the run has ended or is another worker's), `InvalidTaskTransition`,
        `Forbidden`, `TaskConflict` (the step is kept with another result), or `ValidationFailed` (such as a reason that
        workers may not give).
        """
        check_reach(self.principal, self.task_id, self.run_id)
        task = get_task(work, self.task_id)
        try:
            life.check_owner(task, self.run_id, self.worker_id)
        except StaleRun:
            return self._late(work, task)
        if not self._speaks_for(work, task, task.worker_id):
            raise Forbidden(f"run {task.run_id} belongs to another user's worker")
        return take_report(work, task, self.run_id, self.report)

    def _speaks_for(self, work: UnitOfWork, task: Task, worker_id: WorkerId | None) -> bool:
        """Return whether the caller may report for the run's worker, or has the run's own credential."""
        worker = work.workers.get(worker_id) if worker_id else None
        run_id = task.run_id if self.run_id is None else self.run_id
        return speaks_for(self.principal, worker, task.id, run_id)

    def _spoke_for(self, work: UnitOfWork, task: Task, worker_id: WorkerId | None) -> bool:
        """Return whether the caller may report for an ended run's worker; for a removed one any unscoped user may."""
        is_gone = worker_id is None or worker_id not in work.workers
        return (is_gone and self.principal.scopes is None) or self._speaks_for(work, task, worker_id)

    def _late(self, work: UnitOfWork, task: Task) -> Task:
        """Answer a report about an ended run: a repeated report is fine, any other is refused (C7, G3)."""
        run = self._resolved(work, task)
        if run is not None and self.report.kind in ENDINGS and run.digest in self.report.digests():
            if not self.report.code_runs:
                # The first report's commit may not have been answered, or the runs of a broken session were returned
                # before their worker could do so. Either way the code has stopped, and the run's room is free.
                work.end_hold(task, run.run_id)
            return task
        is_end = self.report.kind in ENDINGS or self.report.kind == "stopped"
        if run is not None and is_end and not self.report.code_runs and self._spoke_for(work, task, run.worker_id):
            # Whatever it reports, it shows that the code has stopped: its hold ends.
            work.end_hold(task, run.run_id)
            if self.report.kind == "stopped":
                return task
        life.check_owner(task, self.run_id, self.worker_id)
        raise StaleRun(f"run {self.run_id} of task {task.id} has ended")

    def _resolved(self, work: UnitOfWork, task: Task) -> Run | None:
        if self.run_id is None:
            return None
        run = work.resolved.get((task.seq, self.run_id))
        if run is None or (self.worker_id is not None and run.worker_id != self.worker_id):
            return None
        return run


@dataclass(slots=True)
class Receive(OneRow):
    """Takes the oldest message that a run's step waits for, if there is one."""

    asked: ReportRun
    """A report of the kind `receive`."""

    def reads(self, reads: ReadSet) -> None:
        """Read what the report needs, and the message."""
        self.asked.reads(reads)

    def apply(self, work: UnitOfWork) -> Step | None:
        """Return the step that has received it, now or earlier, or None if no message waits. Raises as `ReportRun`."""
        task, step = self.asked.apply(work), _step_of(self.asked.report)
        return work.steps.kept.get((task.seq, step.name, step.occurrence))


def check_reach(principal: Principal, task_id: TaskId, run_id: int | None) -> None:
    """Raise `Forbidden` for a temporary credential of another run, without revealing whether that run exists (C9)."""
    if principal.run is not None and (run_id is None or not principal.may(claim_task(task_id, run_id))):
        own_task, own_run = principal.run
        raise Forbidden(f"the credential is for run {own_run} of task {own_task} and reaches no other")


def take_report(work: UnitOfWork, task: Task, run_id: int | None, report: RunReport) -> Task:
    """Apply a report about the open run.

    Raises `InvalidTaskTransition` or `ValidationFailed`, and `TaskConflict` if a step is kept with another result.
    """
    if task.is_encrypted:
        report.check_sealed()
    if report.kind == "suspended":
        check_suspension(work, task, _step_of(report))
    if report.starts and task.status is Status.CLAIMED and report.kind in ENDINGS - {"returned"}:
        # A refused report must not start the run either (G9).
        if _ending(report).reason is Reason.RETURNED:
            raise _not_unstarted()
        _start(work, task, run_id)
    match report.kind:
        case "started":
            _start(work, task, run_id)
        case "checkpoint" | "progress" | "logs":
            _note(work, task, report)
        case "step":
            keep_step(work, task, _step_of(report), report.result)
        case "receive":
            take_message(work, task, _step_of(report))
        case "completed" | "failed" | "exception" | "paused" | "suspended" | "returned":
            _end(work, task, report)
        case "stopped":
            raise InvalidTaskTransition("the run is still open: report how it ended instead of stopped")
        case _:
            raise ValidationFailed(f"{report.kind!r} is not a kind of report")
    return task


def _step_of(report: RunReport) -> StepReport:
    if report.step is None:
        raise ValidationFailed(f"{report.kind}: needs step, the step's name")
    return report.step


def _not_unstarted() -> InvalidTaskTransition:
    return InvalidTaskTransition("only a run that has not started can be handed back")


def _start(work: UnitOfWork, task: Task, run_id: int | None) -> None:
    if task.status is Status.RUNNING and run_id is not None:
        return
    advance(task.status, Verb.START, Status.RUNNING)
    work.open(task)
    life.start(task, run_id, work.now)
    work.changed(task)


def _note(work: UnitOfWork, task: Task, report: RunReport) -> None:
    work.open(task)
    if report.checkpoint is not None:
        task.checkpoint = report.checkpoint
    if report.progress is not None:
        task.progress = report.progress
    note_usage(task, report.usage)
    for line in report.lines or ():
        work.add_log(task, line)
    # A checkpoint is a sign of life of this run (E3).
    life.renew(task, work.now)
    work.touched(task)
    if is_over_budget(task):
        _fail_over_budget(work, task)


def _fail_over_budget(work: UnitOfWork, task: Task) -> None:
    used = f"used {amount(task.usage or 0.0)} of {amount(task.budget or 0.0)}"
    ending = Ending(Outcome.EXCEPTION, Reason.BUDGET_EXCEEDED, used)
    until = task.taken_until
    cut_off(work, task, life.fail(task, ending, work.now, work.draw), until)


def _end(work: UnitOfWork, task: Task, report: RunReport) -> None:
    ending = _ending(report)
    if report.kind == "completed":
        advance(task.status, Verb.COMPLETE, Status.COMPLETED)
    elif report.kind == "returned":
        advance(task.status, Verb.REQUEUE, Status.PENDING)
        if task.status is not Status.CLAIMED:
            raise _not_unstarted()
    work.open(task)
    until = _slot_until(task, work.now) if report.code_runs else None
    # A thread that can't be stopped keeps its slot; its task may run again elsewhere, or here beside it.
    end_run(work, task, _resolve(work, task, report, ending), until)


def _slot_until(task: Task, now: datetime) -> datetime | None:
    """Return until when code that runs on keeps its slot unless heartbeats renew it; a report is a sign of life."""
    increment = timedelta(seconds=task.heartbeat_increment)
    return None if task.taken_until is None else max(task.taken_until, now + increment)


def _resolve(work: UnitOfWork, task: Task, report: RunReport, ending: Ending) -> Run:
    if report.usage is not None and is_over_budget(task, report.usage) and report.kind != "completed":
        reason = Ending(
            Outcome.EXCEPTION, Reason.BUDGET_EXCEEDED, report.error, report.traceback, report.usage, ending.digest
        )
        return life.fail(task, reason, work.now, work.draw)
    if report.kind == "completed":
        return life.complete(task, report.result, ending, work.now)
    if report.kind == "suspended":
        return suspend(work, task, _step_of(report), ending)
    if report.kind == "paused":
        return life.confirm_pause(task, report.checkpoint, ending, work.now)
    if report.kind == "returned" or ending.reason is Reason.RETURNED:
        return life.hand_back(task, ending, work.now)
    return life.fail(task, ending, work.now, work.draw, report.retry_after)


_OUTCOMES = {
    "completed": (Outcome.COMPLETED, None),
    "failed": (Outcome.FAILED, Reason.ERROR),
    "exception": (Outcome.EXCEPTION, None),
    "paused": (Outcome.PAUSED, Reason.INTERRUPTED),
    "suspended": (Outcome.SUSPENDED, Reason.SUSPENDED),
    "returned": (Outcome.RETURNED, Reason.RETURNED),
}


def _ending(report: RunReport) -> Ending:
    outcome, reason = _OUTCOMES[report.kind]
    if report.kind in {"failed", "exception"} and report.reason is not None:
        reason = report.reason
    if report.kind == "exception":
        if reason is None or reason not in REPORTABLE:
            allowed = ", ".join(sorted(REPORTABLE))
            raise ValidationFailed(f"an exception needs a reason that workers may report: {allowed}")
        if reason is Reason.RETURNED:
            outcome = Outcome.RETURNED
    if report.kind == "failed" and reason not in {Reason.ERROR, Reason.TIMEOUT}:
        raise ValidationFailed("failed takes the reason error or timeout: report anything else as an exception")
    error = report.error if report.error is not None else report.detail
    return Ending(outcome, reason, error, report.traceback, report.usage, report.digest())


@dataclass(slots=True, kw_only=True)
class ReportMany:
    """Reports of one worker about its runs, each with its own outcome."""

    principal: Principal
    worker_id: WorkerId | None
    """None if a temporary credential reports about its run, whichever worker has it."""
    reports: list[tuple[TaskId, int, RunReport]]
    rest: list[int] | None = None
    """The indexes of the reports that the fast path left; None: all."""

    @property
    def rows(self) -> int:
        """Return how many tasks it may write."""
        return len(self.reports)

    def _single_reports(self) -> Iterator[tuple[int, ReportRun]]:
        for i in range(len(self.reports)) if self.rest is None else self.rest:
            task_id, run_id, report = self.reports[i]
            yield (
                i,
                ReportRun(
                    principal=self.principal, worker_id=self.worker_id, task_id=task_id, run_id=run_id, report=report
                ),
            )

    def reads(self, reads: ReadSet) -> None:
        """Read what each report needs."""
        for _, one in self._single_reports():
            one.reads(reads)

    def apply(self, work: UnitOfWork) -> dict[int, TreadleError]:
        """Return the refusals, by the report's index."""
        refused: dict[int, TreadleError] = {}
        for i, one in self._single_reports():
            try:
                one.apply(work)
            except TreadleError as error:
                refused[i] = error
        return refused

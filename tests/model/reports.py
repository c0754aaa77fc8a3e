"""The model's reports: what is told of a run, and what is taken of it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.model.life import allowed
from tests.model.stepping import Steps
from tests.model.things import FORBIDDEN, INVALID, NO_TASK, STALE, TRANSITION, Refused, Task, User
from treadle.wire.status import REPORTABLE, Outcome, Reason, Status
from treadle.wire.transitions import Verb

ENDINGS = {"completed", "failed", "exception", "paused", "suspended"}

Said = dict[str, Any]
"""A report: its kind, and its fields as on the wire."""


def is_no_report(said: Said) -> bool:
    """Whether it has not even the form of a report; a run that can't be, and logs without lines, have it."""
    return bool(said.get("wrong", {}).keys() - {"run_id"}) and said["wrong"].get("kind") != "logs"


class Reports(Steps):
    """What workers report."""

    def report(
        self, user: User, task_id: str, run_id: int, said: Said, now: datetime, worker_id: str | None = None
    ) -> Task:
        """Take a report of a run; `worker_id` where a worker reports of its own runs alone."""
        if user.run is not None and user.run != (task_id, run_id):
            raise FORBIDDEN
        if (task := self.tasks.get(task_id)) is None:
            raise NO_TASK
        is_its_run = task.is_leased and task.run_id == run_id and worker_id in {None, task.worker_id}
        if not is_its_run:
            return self._late(user, task, run_id, said, worker_id)
        if not self.speaks_for(user, task.worker_id, task, run_id):
            raise FORBIDDEN
        self.take(task, said, now)
        return task

    def _late(self, user: User, task: Task, run_id: int, said: Said, worker_id: str | None) -> Task:
        """The run is over: the same report again is fine, and any end of it says that its code has stopped (G3)."""
        run = self.runs.get((task.id, run_id))
        if run is None or (worker_id is not None and run.worker_id != worker_id):
            raise STALE
        if said["kind"] in ENDINGS and run.said == self.digest(said):
            return task
        if said["kind"] in ENDINGS | {"stopped"} and not said.get("code_runs"):
            is_gone = run.worker_id not in self.workers
            if (is_gone and user.run is None) or self.speaks_for(user, run.worker_id, task, run_id):
                self.holds.pop((task.id, run_id), None)
                if said["kind"] == "stopped":
                    return task
        raise STALE

    @staticmethod
    def digest(said: Said) -> Said:
        """Return what two reports must share to be the same one."""
        skipped = {"starts", "code_runs", "retry_after"}
        base = {"reason": "error"} if said["kind"] == "failed" else {}
        return base | {name: value for name, value in said.items() if name not in skipped and value is not None}

    def take(self, task: Task, said: Said, now: datetime) -> None:
        """Take a report of the open run."""
        kind = said["kind"]
        if kind == "started":
            self._start(task, now)
        elif kind in {"checkpoint", "progress", "logs"}:
            self._note(task, said, now)
        elif kind == "step":
            self.keep_step(task, said, now)
        elif kind == "receive":
            self.receive_message(task, said, now)
        elif kind == "stopped":
            raise TRANSITION
        else:
            self._end(task, said, now)

    def _start(self, task: Task, now: datetime) -> None:
        if task.status is not Status.RUNNING:
            self.move(task, Verb.START, Status.RUNNING, now)
            task.started_at = now

    def _note(self, task: Task, said: Said, now: datetime) -> None:
        if said["kind"] == "checkpoint":
            task.checkpoint = said["checkpoint"]
        if said["kind"] == "progress":
            task.progress = {"share": said.get("share"), "message": said.get("message")}
        self.use(task, said.get("usage"))
        self.renew(task, now)
        if self.is_over_budget(task):
            self.stop_over_budget(task, now)

    def stop_over_budget(self, task: Task, now: datetime) -> None:
        until, run_id = task.taken_until, task.run_id
        self.fail(task, Outcome.EXCEPTION, Reason.BUDGET_EXCEEDED, now, error=f"used {task.usage:g} of {task.budget:g}")
        self.keep_hold(task, run_id, until)

    def _end(self, task: Task, said: Said, now: datetime) -> None:
        kind, usage = said["kind"], said.get("usage")
        reason = self._check_end(task, said)
        if said.get("starts"):
            self._start(task, now)
        until = None
        if said.get("code_runs") and task.taken_until is not None:
            until = max(task.taken_until, now + timedelta(seconds=task.heartbeat_increment))
        run_id, text = task.run_id, said.get("error", said.get("detail"))
        told: dict[str, Any] = {"usage": usage, "said": self.digest(said), "error": text}
        if usage is not None and kind != "completed" and self.is_over_budget(task, usage):
            self.fail(task, Outcome.EXCEPTION, Reason.BUDGET_EXCEEDED, now, **told)
        elif kind == "completed":
            self._complete(task, said, now)
        elif kind == "suspended":
            self.suspend(task, said, now, **told)
        elif kind == "paused":
            self.end_run(task, Outcome.PAUSED, Reason.INTERRUPTED, now, **told)
            task.checkpoint = task.checkpoint if said.get("checkpoint") is None else said["checkpoint"]
            task.error = text
            self.interrupt(task, now)
        elif reason is Reason.RETURNED:
            self.hand_back(task, now, **told)
        else:
            outcome = Outcome.FAILED if kind == "failed" else Outcome.EXCEPTION
            self.fail(task, outcome, reason, now, retry_after=said.get("retry_after"), **told)
        self.keep_hold(task, run_id, until, slot_only=True)

    def _check_end(self, task: Task, said: Said) -> Reason:
        """Refuse an end that can't be, before anything is changed; return its reason."""
        kind = said["kind"]
        if kind == "suspended":
            self.check_suspension(task, said)
        reason = Reason(said["reason"]) if said.get("reason") else Reason.ERROR if kind == "failed" else None
        if kind == "completed" and not said.get("starts"):
            allowed(task, Verb.COMPLETE, Status.COMPLETED)
        if kind == "exception" and reason not in REPORTABLE:
            raise INVALID
        if kind == "failed" and reason not in {Reason.ERROR, Reason.TIMEOUT}:
            raise INVALID
        if reason is Reason.RETURNED and (task.status is not Status.CLAIMED or said.get("starts")):
            raise TRANSITION
        return reason or Reason.ERROR

    def _complete(self, task: Task, said: Said, now: datetime) -> None:
        self.end_run(task, Outcome.COMPLETED, None, now, usage=said.get("usage"), said=self.digest(said))
        self.finish(task, Verb.COMPLETE, Status.COMPLETED, now)
        task.result, task.error, task.reason, task.cancel_requested = said.get("result"), None, None, False

    def hand_back(self, task: Task, now: datetime, **told: Any) -> None:
        """Return a run that was never started: it costs nothing, and the task keeps its place."""
        self.end_run(task, Outcome.RETURNED, Reason.RETURNED, now, **told)
        self.give_back_tokens(task, now)
        if task.cancel_requested:
            self.interrupt(task, now)
        else:
            self.move(task, Verb.REQUEUE, Status.PENDING, now)

    def report_many(
        self, user: User, worker_id: str, said: Sequence[tuple[str, int, Said]], now: datetime
    ) -> list[tuple[int, str | None]]:
        """Take many reports of a worker in their order; each has an answer of its own."""
        self.own_worker(user, worker_id)
        if all(is_no_report(one) for _, _, one in said):
            raise INVALID
        answers: list[tuple[int, str | None]] = []
        for task_id, run_id, one in said:
            try:
                if "wrong" in one:
                    raise INVALID
                self.report(user, task_id, run_id, one, now, worker_id)
                answers.append((200, None))
            except Refused as refused:
                answers.append((refused.status, refused.name))
        return answers

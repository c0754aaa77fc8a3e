"""The model's steps: what a task keeps, sleeps, and the messages that it is sent and receives."""

from datetime import datetime, timedelta
from typing import Any

from tests.model.claims import Claims
from tests.model.things import CONFLICT, INVALID, NO_TASK, TRANSITION, Message, Step, Task, User
from treadle.wire.status import Outcome, Reason, Status
from treadle.wire.transitions import Verb


class Steps(Claims):
    """What code keeps, and what it waits for."""

    def keep_step(self, task: Task, said: dict[str, Any], now: datetime) -> None:
        """Keep what a step came to, once: a sign of life of its run."""
        told = (said.get("function"), said.get("result"))
        kept = self.kept_step(task, said)
        if kept is None:
            self._keep(task, said, "call", now, function=told[0], result=told[1], seconds=said.get("seconds"))
        elif kept.kind != "call" or (kept.function, kept.result) != told:
            raise CONFLICT
        self.renew(task, now)

    @staticmethod
    def kept_step(task: Task, said: dict[str, Any]) -> Step | None:
        """Return the step that is told of, if it is kept."""
        key = (said["step"], said.get("occurrence", 0))
        return next((step for step in task.kept if step.key == key), None)

    @staticmethod
    def _keep(task: Task, said: dict[str, Any], kind: str, now: datetime, **more: Any) -> Step:
        assert task.run_id is not None
        step = Step(
            said["step"], said.get("occurrence", 0), kind, more.pop("function", None), task.run_id,
            more.pop("result", None), now, **more,
        )  # fmt: skip
        task.kept.append(step)
        task.steps += 1
        return step

    @staticmethod
    def _take(task: Task, step: Step, now: datetime) -> bool:
        """Let the step receive the oldest message of its name that waits; return whether there is one."""
        message = next((one for one in task.messages if one.name == step.step and one.by is None), None)
        if message is not None:
            message.by = task.kept.index(step)
            step.result, step.received_at = message.data, now
        return message is not None

    def receive_message(self, task: Task, said: dict[str, Any], now: datetime) -> None:
        """Receive a message that waits, as a step; a sign of life of its run."""
        if self.kept_step(task, said) is None and any(
            one.name == said["step"] and one.by is None for one in task.messages
        ):
            self._take(task, self._keep(task, said, "receive", now), now)
        self.renew(task, now)

    def check_suspension(self, task: Task, said: dict[str, Any]) -> None:
        """Refuse to wait by a step that is kept."""
        if self.kept_step(task, said) is not None:
            raise CONFLICT

    def suspend(self, task: Task, by: dict[str, Any], now: datetime, **told: Any) -> None:
        """End the run, until the time or the message has come; it costs nothing."""
        seconds = by["seconds"]
        kind = "receive" if by.get("receives") else "sleep"
        step = self._keep(task, by, kind, now, until=now + timedelta(seconds=seconds))
        if kind == "receive" and self._take(task, step, now):
            seconds = 0.0
        self.end_run(task, Outcome.SUSPENDED, Reason.SUSPENDED, now, **told)
        task.error = None
        if task.cancel_requested:
            task.scheduled_at = now + timedelta(seconds=seconds)
            self.interrupt(task, now)
            task.reason = Reason.SUSPENDED
            return
        self.put_back(task, Verb.SUSPEND, seconds, now)
        task.next_retry_at = None
        task.reason = Reason.SUSPENDED if task.status is Status.SCHEDULED else None

    def send(
        self, user: User, task_id: str, name: str, message_id: str, data: Any, now: datetime
    ) -> tuple[Message, bool]:
        """Put in a message, once; a task that waits for it goes on. Return it, and whether it is new."""
        task = self.sent_to(user, task_id)
        if (known := next((m for m in task.messages if (m.name, m.id) == (name, message_id)), None)) is not None:
            if known.data != data:
                raise CONFLICT
            return known, False
        if not task.is_open:
            raise TRANSITION
        message = Message(name, message_id, data, user.name, now)
        task.messages.append(message)
        last = task.kept[-1] if task.kept else None
        if last is not None and (last.kind, last.step) == ("receive", name) and self._waits_by(task, last):
            self._take(task, last, now)
            task.scheduled_at = min(task.scheduled_at, now)
            if task.status is Status.SCHEDULED:
                self.move(task, Verb.PROMOTE, Status.PENDING, now)
                self.wake(task)
        return message, True

    def sent_to(self, user: User, task_id: str) -> Task:
        """Return the task that the user may send messages to: who may steer it, and its open run."""
        if (task := self.tasks.get(task_id)) is None:
            raise NO_TASK
        is_its_run = user.run is not None and self.is_live(user.run) and user.run[0] == task_id
        if not is_its_run:
            self.check_control(user, task)
        return task

    @staticmethod
    def _waits_by(task: Task, step: Step) -> bool:
        is_empty = step.kind != "call" and step.received_at is None
        if task.run_id is None or task.is_leased:
            return False
        last = task.run_id - 1 if task.worker_id is None else task.run_id
        return is_empty and step.run_id == last

    def move_wait(self, task: Task, at: datetime, now: datetime) -> None:
        """Move the end of a sleep, or of a wait for a message, with the time of its task."""
        last = task.kept[-1] if task.kept else None
        if last is not None and self._waits_by(task, last):
            last.until = max(at, now)

    @staticmethod
    def clear_steps(task: Task, from_step: str | None) -> None:
        """Forget all steps and messages, or the steps from one on: what these have received waits again."""
        if from_step is None:
            task.kept, task.messages, task.steps = [], [], 0
            return
        first = next((i for i, step in enumerate(task.kept) if step.key == (from_step, 0)), None)
        if first is None:
            raise INVALID
        task.kept, task.steps = task.kept[:first], first
        for message in task.messages:
            if message.by is not None and message.by >= first:
                message.by = None
